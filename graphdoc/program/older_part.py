"""Whether a call ran into an older part of its graph at all: which edges lead there, and which call has used it."""

from __future__ import annotations

from graphdoc.evidence import Event, Evidence, Node, OlderEdge, Raised, Stale
from graphdoc.program.calls_in_order import DIFFERENTIATING, Journal
from graphdoc.program.exception import SECOND_TIME, VERSION, message_of
from graphdoc.program.kept_behind import kept_behind_call
from graphdoc.program.reuse import Reuse
from graphdoc.program.rounds import of_this_round


def older_part(
    evidence: Evidence, journal: Journal, failing: Event | None, meant: frozenset[str] | None
) -> Reuse | None:
    """The older part behind the failing call, or None where no edge into one was seen, or where the call failed of
    something else and all of its graph was whole: an earlier call on the same root had kept it."""
    if not _was_used(evidence.raised, evidence.nodes, evidence.older_edges):
        return None

    def this_round(carry: OlderEdge) -> bool:
        """Whether the value was made for this very call, in the rounds of a loop before it, and only stepped over."""
        made = evidence.node(carry.producer)
        if made is None or failing is None or _was_kept(evidence.events, journal, made.sequence, set(carry.behind)):
            return False
        return of_this_round(evidence.sources, evidence.nodes, evidence.failing_node, failing, made)

    shared = evidence.extras.get("shared_with") or {}
    earlier = journal.earlier(failing) if failing is not None else None
    by_write = _is_value_written(evidence.failing_node, evidence.stale)
    carries = [
        kept_behind_call(evidence.sources, evidence.nodes, c, failing)
        for c in evidence.older_edges
        if c.dead and not (by_write and _surely_unused(journal, failing, evidence.node(c.producer), c))
        if not this_round(c)
    ]
    if shared.get("same_root") or earlier is not None:
        freeing = evidence.event(shared["event"]) if shared else earlier
        return Reuse(evidence, journal, failing, freeing, carries, meant)
    if not evidence.older_edges and shared:
        # All of this loss is a part of an earlier one: nothing leads from it into an older part, but from that loss.
        inside = [c for c in evidence.earlier_edges if c.dead and c.producer == evidence.root]
        if inside:
            return Reuse(evidence, journal, failing, evidence.event(shared["event"]), inside, meant)
    if not carries or any(c.apart for c in carries):
        return None  # which part is the older one is not known between threads
    freed = next((c.freed_by for c in carries if c.freed_by >= 0), -1)
    return Reuse(evidence, journal, failing, evidence.event(freed), carries, meant)


def _was_used(raised: Raised | None, nodes: list[Node], edges: list[OlderEdge]) -> bool:
    """Whether the error is one of a graph that was used up or written into, or a part of the graph is."""
    known = message_of(raised, *SECOND_TIME, *VERSION) is not None or raised is None or not raised.message
    return known or any(n.state != "live" for n in nodes) or any(c.dead for c in edges)


def _was_kept(events: list[Event], journal: Journal, made: int, behind: set[str]) -> bool:
    """Whether a call with ``retain_graph=True`` can have walked what was made at this number, and left it whole.

    One whose gradients are differentiated again (``create_graph=True``) belongs to the loss that does so.
    """
    calls = (e for e in events if e.kind in DIFFERENTIATING and e.sequence > made and not e.failed)
    kept = (e for e in calls if e.retain_graph and not e.create_graph)
    return any(not (known := set(journal.reaches(e))) or bool(known & behind) for e in kept)


def _is_value_written(met: Node | None, stale: list[Stale]) -> bool:
    """Whether backward met a value that was written into; of a parameter it was a step that made the part old."""
    if met is None or met.state != "stale":
        return False
    return not any(s.node == met.id and s.tensor.kind == "parameter" for s in stale)


def _surely_unused(journal: Journal, failing: Event | None, producer: Node | None, carry: OlderEdge) -> bool:
    """Whether no earlier call has used what lies behind an edge, which is there by age alone where a value was written
    into: what each call since its making reached is known, and is none of it.

    A discriminator that learned from detached images: its call came after them, and never went near their graph.
    """
    if producer is None or failing is None or not carry.behind:
        return False
    first = journal.events[0]
    if (first.index and first.sequence > producer.sequence) or not journal.is_complete(first, failing):
        return False  # a call may have fallen out of the journal
    calls = [e for e in journal.events if e.kind in DIFFERENTIATING and e.index < failing.index]
    behind = set(carry.behind)
    return all(e.reaches and not behind & set(e.reaches) for e in calls if e.sequence > producer.sequence)
