"""What the graph says about an older graph that a backward call ran into: which tensors, kept how, and meant for whom.

Shared by the causes of GD1 and by those version errors behind which a carried tensor stands. A cause asks ``analyse``
and answers only when ``kind`` is its own slug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphdoc.evidence import Carry, Event, Evidence, Frame, Holder
from graphdoc.program.compared_values import is_reference
from graphdoc.program.coupled_losses import Coupling, one_way
from graphdoc.program.head_optimizers import only_heads_stepped
from graphdoc.program.inner_gradient import is_inner, is_term
from graphdoc.program.roots import roots_of
from graphdoc.program.spans import innermost_user

Site = tuple[tuple[str, int, int], ...]


@dataclass
class Reuse:
    """One answer. ``kind`` is a slug of GD1, or empty where the evidence does not decide.

    ``carries`` are the edges that matter, newest first; ``freeing`` the call that used the old part before,
    ``failing`` the call that failed. ``behind`` are the parameters behind the old part, ``meant`` those that the
    failing loss is meant to train, ``own`` those of ``behind`` that it is meant to train. ``coupling`` is set where the
    losses themselves show what in them is a target.
    """

    kind: str
    carries: list[Carry]
    failing: Event | None
    freeing: Event | None
    behind: set[str] = field(default_factory=set)
    meant: set[str] = field(default_factory=set)
    meant_known: bool = False
    detach_in_freeing: bool = False
    coupling: Coupling | None = None

    @property
    def own(self) -> set[str]:
        return self.behind & self.meant


def site(stack: Sequence[Frame]) -> Site:
    """The user's frames of a stack as a key: the same key, the same place reached in the same way."""
    return tuple((f.file, f.line, f.column) for f in stack if f.user)


def analyse(evidence: Evidence) -> Reuse | None:
    """Classify the older graph behind a failing backward; None where no edge into one was seen."""
    cached = vars(evidence).get("_reuse", False)
    if cached is False:
        cached = _analyse(evidence)
        vars(evidence)["_reuse"] = cached
    return cached  # type: ignore[no-any-return]


def _analyse(evidence: Evidence) -> Reuse | None:
    failing = evidence.event(evidence.failing_event)
    shared = evidence.extras.get("shared_with") or {}
    if shared.get("same_root") or _same_root(evidence, failing):
        freeing = evidence.event(shared["event"]) if shared else _earlier(evidence, failing)
        return Reuse("repeated-backward", [], failing, freeing)
    carries = [c for c in evidence.carries if c.dead]
    if not carries:
        return None
    freed = next((c.freed_by for c in carries if c.freed_by >= 0), -1)
    freeing = evidence.event(freed)
    reuse = Reuse("", carries, failing, freeing)
    reuse.behind = {name for c in carries for name in c.behind}
    reuse.meant, reuse.meant_known = meant_for(evidence, failing)
    reuse.kind = _shared_kind(evidence, reuse) if "shared_with" in evidence.extras else _kind(evidence, reuse)
    if reuse.kind == "shared-subgraph-losses" and not only_heads_stepped(evidence, failing, freeing):
        _look_for_targets(evidence, reuse)
    return reuse


def _look_for_targets(evidence: Evidence, reuse: Reuse) -> None:
    """Where one of the two losses only aims at what the other one trains, that is a value which should be constant."""
    found = one_way(evidence, reuse.failing, reuse.freeing)
    if found is None:
        return
    reuse.kind, reuse.coupling = "undetached-target", found
    reuse.carries = found.late or found.early
    reuse.detach_in_freeing = not found.late
    reuse.behind = {name for c in reuse.carries for name in c.behind}
    reuse.meant = {n for o in evidence.optimizers if o.id in found.own for n in o.parameters}
    reuse.meant_known = bool(found.late and found.early) and all(loss for _, loss in found.places)


def _same_root(evidence: Evidence, failing: Event | None) -> bool:
    earlier = _earlier(evidence, failing)
    return earlier is not None and failing is not None and earlier.root_op == failing.root_op


def _earlier(evidence: Evidence, failing: Event | None) -> Event | None:
    """The latest earlier call on the very same root."""
    if failing is None or failing.root < 0:
        return None
    return next(
        (
            e
            for e in reversed(evidence.events)
            if e.index < failing.index and e.kind in ("backward", "grad") and e.root == failing.root
        ),
        None,
    )


def _kind(evidence: Evidence, reuse: Reuse) -> str:
    failing, freeing = reuse.failing, reuse.freeing
    if is_inner(evidence, failing, freeing) and is_term(evidence, reuse.carries):
        return "repeated-backward"
    first = reuse.carries[0]
    producer = evidence.node(first.producer)
    if not any(c.recurrent or c.remade for c in reuse.carries) and only_heads_stepped(evidence, failing, freeing):
        return "shared-subgraph-losses"
    roots = roots_of(evidence)
    if any((n := evidence.node(c.producer)) is not None and n.sequence in roots for c in reuse.carries):
        return "accumulated-loss"
    if any(c.recurrent for c in reuse.carries):
        return "carried-state"
    alike = failing is not None and freeing is not None and site(failing.stack) == site(freeing.stack)
    remade = any(c.remade for c in reuse.carries)
    per_call = _made_per_call(evidence, reuse)
    if alike and failing is not None and freeing is not None and _team(evidence, reuse, freeing, failing):
        return "shared-subgraph-losses"
    if remade:
        return "carried-state" if per_call == 1 else "stored-with-graph"
    if not alike:
        # Another loss of the same pass has used this part before.
        return _shared_kind(evidence, reuse)
    if _one_step(evidence, reuse):
        return "shared-subgraph-losses"
    once = producer is not None and producer.epoch == 0
    if _only_the_root_is_fresh(evidence, reuse):
        return "repeated-backward"
    if reuse.meant_known and not reuse.own:
        if per_call > 1 and _in_list(reuse) and not any(reuse.behind & set(o.parameters) for o in evidence.optimizers):
            return "stored-with-graph"
        for_others = failing is not None and freeing is not None and _different(evidence, freeing, failing)
        return "graph-built-once" if once and per_call == 1 and not for_others else "undetached-target"
    if (per_call > 1 and _in_list(reuse)) or _one_of_a_list(evidence, reuse):
        return "stored-with-graph"
    if _renewed(reuse):
        return "carried-state"
    return "stored-with-graph" if is_reference(evidence, reuse.carries, reuse.own) else "graph-built-once"


def _renewed(reuse: Reuse) -> bool:
    """What is held under the tensor's names was made at the same place later: the expression ran again since."""
    holders = [h for c in reuse.carries for h in c.tensor.holders]
    return bool(holders) and not any(h.exact for h in holders)


def _made_per_call(evidence: Evidence, reuse: Reuse) -> int:
    """How many outputs of one expression, all made between the same two backward calls, are carried."""
    # One call can give several outputs of equal standing (h and c): of those, each operation counts for itself.
    alike: dict[tuple[Site, int, str], set[int]] = {}
    for c in reuse.carries:
        node = evidence.node(c.producer)
        if node is not None:
            alike.setdefault((site(node.stack), node.epoch, node.op), set()).add(node.sequence)
    return max((len(v) for v in alike.values()), default=0)


def _in_list(reuse: Reuse) -> bool:
    """Held in something that was filled entry by entry."""
    return any(
        h.exact
        and any(s.kind in ("index", "key") for s in h.steps)
        and {"list", "deque", "dict"} & {s.type for s in h.steps}
        for c in reuse.carries
        for h in c.tensor.holders
    )


def _one_of_a_list(evidence: Evidence, reuse: Reuse) -> bool:
    """Held in a list beside others that the same expression made: entries of a rollout, of which it reads one."""
    for c in reuse.carries:
        producer = evidence.node(c.producer)
        mine = site(producer.stack) if producer is not None else ()
        held: dict[str, set[str]] = {}
        for tensor in evidence.lingering:
            if mine and site(tensor.made) == mine:
                for h in tensor.holders:
                    held.setdefault(f"{h.function}:{kept_list(h)}", set()).add(h.path)
        if any(len(paths) > 1 for name, paths in held.items() if not name.endswith(":")):
            return True
    return False


def kept_list(holder: Holder) -> str:
    """The name of the list or deque that a tensor is held in, itself or in a field of an entry; empty for none."""
    for i, step in enumerate(holder.steps):
        if step.kind == "index" and i and holder.steps[i - 1].type in ("list", "deque"):
            return holder.steps[i - 1].key
    return ""


def _only_the_root_is_fresh(evidence: Evidence, reuse: Reuse) -> bool:
    """All that is new stands in the statement of the backward call: ``(-score).backward()`` on one old ``score``."""
    call = innermost_user(reuse.failing.stack) if reuse.failing is not None else None
    if call is None or evidence.fresh_reaches:
        return False
    for c in reuse.carries:
        node = evidence.node(c.consumer)
        frame = innermost_user(node.stack) if node is not None else None
        if frame is None or (frame.file, frame.function) != (call.file, call.function):
            return False
        if not call.line <= frame.line <= max(call.end_line, call.line):
            return False
    return True


def _different(evidence: Evidence, freeing: Event, failing: Event) -> bool:
    """The two calls work for different optimizers."""
    mine, theirs = optimizers_for(evidence, failing), optimizers_after(evidence, freeing)
    return bool(mine and theirs and not mine & theirs)


def _team(evidence: Evidence, reuse: Reuse, freeing: Event, failing: Event) -> bool:
    """The same line runs backward for one optimizer after the other, and each owns a part of what lies behind."""
    mine, theirs = optimizers_for(evidence, failing), optimizers_after(evidence, freeing)
    owners = {o.id for o in evidence.optimizers if reuse.behind & set(o.parameters)}
    return bool(mine and theirs and not mine & theirs and owners & mine and owners & theirs)


def _one_step(evidence: Evidence, reuse: Reuse) -> bool:
    """The two calls add to the gradients of one step: what lies behind is trained, and nothing was stepped in between.

    Computing it again would give the very same numbers.
    """
    failing, freeing = reuse.failing, reuse.freeing
    owners = {o.id for o in evidence.optimizers if reuse.behind & set(o.parameters)}
    owned = {name for o in evidence.optimizers for name in o.parameters}
    if failing is None or freeing is None or not owners or not reuse.behind <= owned:
        return False
    if any("/torch/optim/" in f.file.replace("\\", "/") for f in failing.stack):
        return False  # a closure: the optimizer moves the parameters between its calls, within one step
    between = [e for e in evidence.events if freeing.index < e.index < failing.index]
    known = len(between) == failing.index - freeing.index - 1
    return known and not any(e.kind in ("backward", "grad", "step") for e in between)


def read_apart(evidence: Evidence, reuse: Reuse) -> bool:
    """One line calls backward for one loss after the other, clears the gradients of what they share in between and
    steps for none: it wants the gradient of each loss by itself.
    """
    failing, freeing = reuse.failing, reuse.freeing
    if failing is None or freeing is None or site(failing.stack) != site(freeing.stack):
        return False
    owners = {o.id for o in evidence.optimizers if reuse.behind & set(o.parameters)}
    return _one_step(evidence, reuse) and bool(_zeroed_before(evidence, failing) & owners)


def _shared_kind(evidence: Evidence, reuse: Reuse) -> str:
    """Two losses of one forward pass: one graph for both, or a value that one of them should take as a constant."""
    failing, freeing = reuse.failing, reuse.freeing
    if failing is None or freeing is None:
        return ""
    if only_heads_stepped(evidence, failing, freeing):
        return "shared-subgraph-losses"
    mine, theirs = optimizers_for(evidence, failing), optimizers_for(evidence, freeing)
    if mine and theirs and not mine & theirs:
        owners = {o.id for o in evidence.optimizers for name in o.parameters if name in reuse.behind}
        if owners & mine and not owners & theirs:
            reuse.detach_in_freeing = True
            return "undetached-target"
        if owners & theirs and not owners & mine:
            return "undetached-target"
    return "shared-subgraph-losses"


# -- whom a loss is meant for ------------------------------------------------------------------------------------


def meant_for(evidence: Evidence, event: Event | None) -> tuple[set[str], bool]:
    """Parameters that a backward call is meant to give gradient to, and whether that is known.

    The optimizers know: those that step after the call and before the next one. For the call that failed the same
    place in earlier iterations tells, or the optimizers zeroed just before it.
    """
    if event is None:
        return set(), False
    ids = optimizers_for(evidence, event)
    names = {n for o in evidence.optimizers if o.id in ids for n in o.parameters}
    if not names:
        owned = {n for o in evidence.optimizers for n in o.parameters}
        fresh = {n for n in evidence.fresh_reaches if n in owned}
        owners = {o.id for o in evidence.optimizers if fresh & set(o.parameters)}
        names = {n for o in evidence.optimizers if o.id in owners for n in o.parameters}
    return names, bool(names)


def optimizers_for(evidence: Evidence, event: Event) -> set[int]:
    """Ids of the optimizers that a backward call works for."""
    found = optimizers_after(evidence, event)
    if not found and len(zeroed := _zeroed_before(evidence, event)) == 1:
        return zeroed
    if not found:
        mine = site(event.stack)
        for other in reversed(evidence.events):
            if other.index < event.index and other.kind == event.kind and site(other.stack) == mine:
                found = optimizers_after(evidence, other)
                if found:
                    break
    return found or _zeroed_before(evidence, event) or _named_after(evidence, event)


def optimizers_after(evidence: Evidence, event: Event) -> set[int]:
    """Optimizers that step after this call, up to the next backward call that follows a step."""
    found: set[int] = set()
    for other in evidence.events:
        if other.index <= event.index:
            continue
        if other.kind == "step":
            found.add(other.optimizer)
        elif (other.kind == "backward" and found) or other.failed:
            break
    return found


def _zeroed_before(evidence: Evidence, event: Event) -> set[int]:
    found: set[int] = set()
    for other in reversed(evidence.events):
        if other.index >= event.index:
            continue
        if other.kind == "zero_grad" and other.optimizer >= 0:
            found.add(other.optimizer)
        elif other.kind in ("backward", "step"):
            break
    return found


def _named_after(evidence: Evidence, event: Event) -> set[int]:
    """Optimizers whose ``step`` is written behind the call, in the function that makes it."""
    frame = innermost_user(event.stack)
    if frame is None:
        return set()
    from graphdoc.source.module import Source

    text = evidence.sources.get(frame.file)
    if text is None:
        return set()
    source = Source(frame.file, text)
    around = source.enclosing_function(frame.line, frame.column or 1)
    last = around.place.end_line if around else len(text.splitlines())
    found: set[int] = set()
    for line in text.splitlines()[frame.line - 1 : last]:
        for optimizer in evidence.optimizers:
            short = optimizer.name.rsplit(".", 1)[-1]
            if short and f"{short}.step(" in line:
                found.add(optimizer.id)
    return found
