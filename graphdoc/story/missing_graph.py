"""What the causes of a missing graph share: which cut is the answer, how sure that is, and the story of its places."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphdoc.evidence import Cut, Frame, Raised, SourceTexts
from graphdoc.finding import Finding
from graphdoc.model import Confidence, Span
from graphdoc.program.checkpoints import by_checkpoint
from graphdoc.program.exception import NO_GRAPH, message_of
from graphdoc.program.in_place_writes import is_only_written
from graphdoc.program.observed import Program
from graphdoc.program.printed_values import is_only_printed
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, innermost, span_of, where
from graphdoc.program.tensors import frames

_RANK = ("conversion", "detach", "nondifferentiable", "no-grad")
"""Which cut to believe where several meet in one loss.

A target under ``no_grad`` and an index from ``argmax`` are everyday and right; a value that was turned into a number on
its way to the loss hardly ever is.
"""


def without_graph(raised: Raised | None) -> bool:
    """Whether the run ended because the loss had no graph."""
    return message_of(raised, *NO_GRAPH) is not None


def is_gradient(cut: Cut) -> bool:
    """Whether the cut is a gradient (``autograd.grad`` or ``p.grad``) that was computed without a graph of its own."""
    return cut.op.rsplit(".", 1)[-1] == "grad"


def principal(program: Program) -> Cut | None:
    """The cut that explains the failure best: a gradient without graph first, then what an optimizer is to train and
    was cut off, then by rank, then the nearest to the loss."""
    known = [c for c in program.cuts if c.reason in _RANK or is_gradient(c)]
    known = [c for c in known if not _leads_nowhere(program.sources, c)] or known
    if not known:
        return program.cuts[0] if program.cuts else None
    return min(
        known,
        key=lambda c: (not is_gradient(c), _may_be_constant(program, c), _rank(c), _is_beside(program.trained, c)),
    )


def _rank(cut: Cut) -> int:
    return -1 if is_gradient(cut) else _RANK.index(cut.reason)


def _may_be_constant(program: Program, cut: Cut) -> bool:
    """Whether what was cut off is known to be nobody's to train."""
    return not is_gradient(cut) and bool(cut.behind) and not is_learned(program, cut)


def find_cut(program: Program, *reasons: str) -> Cut | None:
    """The cut nearest to the loss that has one of these reasons, of what is to be trained first; None where the run did
    not end for want of a graph. A gradient's is another cause's."""
    if not without_graph(program.raised):
        return None
    mine = [c for c in program.cuts if c.reason in reasons and not is_gradient(c)]
    mine = [c for c in mine if not _leads_nowhere(program.sources, c)]
    return min(mine, key=lambda c: (_may_be_constant(program, c), _is_beside(program.trained, c)), default=None)


def _leads_nowhere(sources: SourceTexts, cut: Cut) -> bool:
    """Whether what was cut off is only written into, or, where it was not seen to go into the loss, only printed."""
    at = innermost(cut.stack)
    return is_only_written(sources, at) or (not cut.certain and is_only_printed(sources, at))


def _is_beside(trained: frozenset[str] | None, cut: Cut) -> bool:
    """Whether what was cut off is known to be another loss's to train: a baseline, in the loss of a policy."""
    return bool(trained) and bool(cut.behind) and not {*cut.behind} & (trained or set())


def is_learned(program: Program, cut: Cut) -> bool:
    """Whether an optimizer holds something that lies behind the cut: then gradients were meant to go through it.

    A target that another network computed, and a label, are cut off as they should be.
    """
    return bool(program.owners.holding(name for c in alike(program.cuts, cut) for name in c.behind))


def weigh(program: Program, cut: Cut) -> tuple[float, Confidence]:
    """How strong the finding is: the principal cut is the answer, others only accompany it.

    That something was cut off is seen; that it is the fault is proven only where an optimizer is to train it, or where
    the loss itself is what was cut off.
    """
    if principal(program) is not cut:
        return 0.5, "possible"
    alone = len({c.reason for c in program.cuts if c.reason != "frozen"}) <= 1
    made = loss_made(program.evidence.extras)[1]
    whole = bool(made) and bool(cut.stack) and innermost(made) == innermost(cut.stack)
    meant = cut.reason not in _RANK or is_gradient(cut) or whole or is_learned(program, cut)
    frozen = {p.name for p in program.parameters if not p.requires_grad}
    # An optimizer that has nothing to train by now may be the one whose loss this is.
    idle = any(o.parameters and frozen.issuperset(o.parameters) for o in program.optimizers)
    if cut.certain and alone and meant and not (idle and cut.reason != "frozen"):
        return 0.95, Proof.GRAPH_END.confidence
    if cut.reason == "detach" and not cut.certain:
        return 0.8, "possible"  # a tensor comes out of it, and would have been seen on its way to the loss
    return (0.9, "likely") if cut.certain else (0.8, "likely")


def story(
    program: Program, cut: Cut, label: str, failed: str = "the loss that arrives here has no graph"
) -> tuple[Span, ...]:
    """The places of a cut: where the graph ends, the last operation that had one, and the line that noticed.

    Other cuts of the same reason are causes too (two lists turned into tensors), up to three places in all.
    """
    # Beside one that keeps parameters from learning, one that does not may well be meant.
    told = [c for c in alike(program.cuts, cut) if c.behind or not cut.behind]
    ends = _one_a_line(
        s for c in (_in_text(told) if cut.certain else told) for s in span_of("cause", c.stack, label, program.sources)
    )
    before = span_of("related", cut.before, f"the last operation with a graph{_op(cut.before_op)}", program.sources)
    both = cut.certain or cut.reason == "constant"  # whatever a loss is made from, all of it comes in somewhere
    return distinct((*ends[: 2 if both else 1], *before, *program.raised_span(failed)))


def _in_text(cuts: list[Cut]) -> list[Cut]:
    """The two cuts that are told first; where they stand in one function, the upper one runs before the other."""
    first, second = (innermost(c.stack) for c in cuts[:2]) if len(cuts) > 1 else (None, None)
    if first is None or second is None or (first.file, first.function) != (second.file, second.function):
        return cuts
    return cuts if first.line <= second.line else [cuts[1], cuts[0], *cuts[2:]]


def alike(cuts: list[Cut], cut: Cut) -> list[Cut]:
    """The cut and the others by which the same loss lost its graph for the same reason."""
    same = [c for c in cuts if c.reason == cut.reason and c is not cut and not is_gradient(c)]
    return [cut, *(c for c in same if by_checkpoint(c) == by_checkpoint(cut))]


def of_other_terms(program: Program, cut: Cut) -> list[Cut]:
    """The cuts for the same reason on which another term of the loss hangs alone, of what an optimizer is to train:
    with this one mended and not these, what that term was to train would go on without it, and nothing would say so."""
    terms = [t for t in program.evidence.extras.get("loss_terms") or () if isinstance(t, list)]
    cuts = program.cuts
    alone = {t[0] for t in terms if len(t) == 1 and t[0] < len(cuts) and cuts[t[0]] is not cut}
    found = [c for c in (cuts[i] for i in sorted(alone)) if c.reason == cut.reason and not is_gradient(c)]
    return [c for c in found if not c.behind or program.owners.holding(c.behind)]


def of_other_parameters(program: Program, cut: Cut) -> list[Cut]:
    """For a parameter that is taken as a constant itself (``self.weight.data``), the same done with other ones that an
    optimizer is to train: with this one alone mended, those would stay without gradient."""
    if cut.before or not cut.certain:
        return []
    found = [c for c in program.cuts if (c.reason, c.op) == (cut.reason, cut.op) and not c.before and c.certain]
    others = [c for c in found if c is not cut and set(c.behind) - set(cut.behind)]
    return [c for c in others if program.owners.holding(c.behind)]


def _one_a_line(spans: Iterable[Span]) -> tuple[Span, ...]:
    """One place for each line: two operations of one expression need not be told twice."""
    found: dict[tuple[str, int], Span] = {}
    for s in spans:
        found.setdefault((s.file, s.line), s)
    return tuple(found.values())


def same_line(cut: Cut) -> str:
    """``train.py:12`` of a cut, for a sentence; "one line" where no place is known."""
    return where(innermost(cut.stack)) or "one line"


def facts_of(cuts: list[Cut], cut: Cut) -> tuple[str, ...]:
    """What was measured at the cut: the operation, and the parameters that now get no gradient, by it or its like."""
    facts: list[str] = []
    if cut.before_op:
        facts.append(f"last operation with a graph: {cut.before_op}; first result without one: {cut.op}")
    behind = list(dict.fromkeys(name for c in alike(cuts, cut) if c is cut or c.certain for name in c.behind))
    if behind:
        shown = ", ".join(behind[:6]) + (f" and {len(behind) - 6} more" if len(behind) > 6 else "")
        facts.append(f"behind the cut, without gradient: {shown}")
    return tuple(facts)


def kept_note(cut: Cut) -> str:
    """The effect of keeping the graph at a cut: sure where the loss was seen to come from there."""
    flow = "gradients then flow through this value into everything that it was computed from."
    return flow.capitalize() if cut.certain else f"If the loss is computed from it by PyTorch alone, {flow}"


def loss_made(extras: dict[str, Any]) -> tuple[str, list[Frame]]:
    """The operation that made a loss without graph and its place, where a second run has seen it; else empty."""
    told = extras.get("loss_made")
    first = told[0] if isinstance(told, list) and told else None
    if not isinstance(first, dict):
        return "", []
    return str(first.get("op", "")), frames(first.get("stack"))


def recording_was_on(extras: dict[str, Any]) -> bool:
    """Whether grad mode was on when the call failed (True where it is not known)."""
    return bool(extras.get("grad_enabled", True))


def unseen(program: Program, strength: float, title: str, hint: str) -> Finding | None:
    """A weak finding where nothing was seen of how the loss lost its graph: one possible reason of several.

    ``strength`` below 0.35 keeps it behind everything that was measured.
    """
    if not without_graph(program.raised) or program.cuts or loss_made(program.evidence.extras)[0]:
        return None
    text = (
        "The message says only that the loss has no graph; where it was lost was not observed. One reason to look for: "
    )
    run = " A run under graphdoc shows the line." if program.evidence.from_text else ""
    where_noticed = program.raised_span("the loss that arrives here has no graph")
    return Finding(strength, "possible", title, f"{text}{hint}{run}", where_noticed)


def _op(name: str) -> str:
    return f" ({name})" if name else ""
