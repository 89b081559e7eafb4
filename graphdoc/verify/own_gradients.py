"""What the loss that had failed gives to the parameters it is to train: the same, where the loss is the same number."""

from __future__ import annotations

from graphdoc.evidence import OlderEdge, Stale
from graphdoc.program.reuse import Reuse
from graphdoc.verify.measures import difference, names_of, told_place
from graphdoc.verify.traces import Trace

SAME = 1e-6
"""How far two losses of the same numbers may lie apart. One small step moves a loss by little more than this, and may
move gradients by a hundred times as much."""


def behind_old_parts(stale: list[Stale], edges: list[OlderEdge], reuse: Reuse | None) -> frozenset[str]:
    """Names of the parameters behind what is stale, freed or older in the failing graph; empty where it is not known.

    What they get from the failing call passes a part that a fix is to mend or to cut off. All others get theirs by
    nodes that are as the forward pass left them.
    """
    found = {n for s in stale for n in s.behind} | (set(reuse.behind) if reuse is not None else set())
    if not stale:
        found |= {n for e in edges for n in e.behind}
    return frozenset(found)


def cut_within(base: Trace, patched: Trace, failing: int, old: frozenset[str], tolerance: float) -> list[str]:
    """A doubt if the call that had failed has the very loss of the unpatched program, made to go on, and gives other
    gradients to what its own optimizers step: then the patch has cut between the loss and these.

    ``old`` are names of the parameters behind what is old in its graph: their gradient may end, or be another one.
    """
    at = next((c for c in base.calls if c.index == failing), None)
    if at is None or not old or at.value is None or not at.gained:
        return []
    number = [c for c in base.calls if c.place == at.place].index(at)
    same = [c for c in patched.calls if c.place == at.place]
    now = same[number] if number < len(same) else None
    if now is None or not now.measured or now.value is None or difference({"": at.value}, {"": now.value}) > SAME:
        return []
    own = base.trains().get(at.place, set())
    mine = {k: g for k, g in at.gained.items() if int(k.partition(".")[0]) in own and base.name(k) not in old}
    others = {k: now.gained.get(k, 0.0) for k in mine}
    if difference(mine, others) <= tolerance:
        return []
    keys = [k for k in mine if difference({k: mine[k]}, {k: others[k]}) > tolerance]
    where, names = told_place(at.place), names_of(base, keys, mine)
    return [f"the loss at {where} has the same value and gives other gradients to {names}, which it is to train"]
