"""The places that an older graph sends a reader to: where its tensors are kept, made, read, and added up."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from graphdoc.evidence import Frame, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.model import Role, Span
from graphdoc.program.bindings import frame_of, tree
from graphdoc.program.carried_names import carrying_holders, handed_round, stored_on
from graphdoc.program.earlier_losses import leads_to, roots_of
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.loops import loop_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import code_at, distinct, innermost_user, moment, span, span_of
from graphdoc.program.stored_values import alias_of, kept_at, user_frames, writes_the_same
from graphdoc.program.value_reads import bound_names, ends, meeting, uses_in_loss
from graphdoc.source.paths import covers
from graphdoc.story.older_graph import MOST_PLACES, called, distinct_carries, paths_of

MADE = "made here with its graph"


def cause_places(program: Program, reuse: Reuse, label: str, making: str = "") -> tuple[Span, ...]:
    """Where a reader should go for something that is kept: the statements that keep it, then where it was made.

    ``making`` is the label of the latter, where it is empty ``label`` if nothing else is told. The start of a
    recurrence is not told.
    """
    kept = [
        span("cause", f, f"{_is_what(program.sources, f)} of data that outlive this pass", program.sources)
        for f in aliases(program.sources, program.nodes, reuse)
    ] + list(keeping_places(program, reuse, label))
    made: list[Span] = []
    for c in distinct_carries(program.nodes, reuse.carries)[:MOST_PLACES]:
        producer = program.node(c.producer)
        frame = innermost_user(producer.stack) if producer is not None else None
        if frame is not None and not reuse.is_start(c):
            told = making or (MADE if kept else label)
            made.append(span("cause", frame, told, program.sources, moment(producer)))
    made = [m for m in made if not any(is_within(m, k) for k in kept[:2])]
    return distinct((*kept[:2], *made[: 3 - len(kept[:2])]))[:3]


def kept_apart(program: Program, reuse: Reuse) -> bool:
    """Whether each value is kept by another statement than the one that makes it (``tau = f(x)``, ``self.tau = tau``):
    of the latter it is not known whether it has run again since."""
    kept = keeping_places(program, reuse, "")
    frames = [
        innermost_user(producer.stack)
        for c in distinct_carries(program.nodes, reuse.carries)
        if (producer := program.node(c.producer)) is not None
    ]
    made = [s for f in frames if f is not None for s in (span("cause", f, ""),)]
    return bool(kept and made) and not any(is_within(m, k) for m in made for k in kept)


def keeping_places(program: Program, reuse: Reuse, label: str) -> tuple[Span, ...]:
    """The statements that keep something for a later pass; none where nothing but its first name does."""
    kept: list[Span] = []
    for c in distinct_carries(program.nodes, reuse.carries)[:MOST_PLACES]:
        producer = program.node(c.producer)
        if producer is None:
            continue
        holders = carrying_holders(program.sources, program.nodes, program.raised, c)
        statements = kept_at(program.sources, program.nodes, program.raised, holders, producer)[:2]
        for frame in _in_rounds(program.sources, reuse, producer, statements):
            kept.append(span("cause", frame, label, program.sources, moment(producer)))
        on_object = bool(holders) and all(any(s.kind == "attribute" for s in h.steps) for h in holders)
        recurs = reuse.lifetime is Lifetime.RECURS and not on_object and not any(h.exact for h in c.tensor.holders)
        if statements and holders and handed_round(program.sources, program.nodes, c) is not None:
            continue  # the call that hands it round keeps nothing beside them
        carrying = (reuse.carrying(c) or stored_on(program.sources, program.nodes, c)) if recurs else None
        if carrying is not None:
            kept.append(span("cause", carrying[0], label, program.sources, moment(program.node(c.consumer))))
    return distinct(kept)


def _in_rounds(sources: SourceTexts, reuse: Reuse, producer: Node, kept: list[Frame]) -> list[Frame]:
    """Of the statements that keep a value which recurs, those in a loop and the one that made it: the others give it
    its start. All of them where none is of these, as where a package runs the loop and the value has another name."""
    if reuse.lifetime is not Lifetime.RECURS:
        return kept
    made = [f for f in producer.stack if f.user]
    return [f for f in kept if loop_of(sources, f) is not None or _runs_below(f, made)] or kept


def _runs_below(statement: Frame, stack: list[Frame]) -> bool:
    """Whether one of the frames of a stack stands in a statement."""
    return any(
        f.file == statement.file and statement.line <= f.line <= max(statement.line, statement.end_line) for f in stack
    )


def is_within(place: Span, told: Span) -> bool:
    """Whether a place lies on the lines of one that is told already."""
    return place.file == told.file and told.line <= place.line and place.end_line <= told.end_line


def constant_places(
    program: Program, carries: Iterable[OlderEdge], label: str, role: Role = "cause"
) -> tuple[Span, ...]:
    """Where a value that should be a constant is bound, and where the loss takes it up."""
    out: list[Span] = []
    for c in distinct_carries(program.nodes, carries)[:MOST_PLACES]:
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        pair = ends(program.evidence.sources, program.evidence.nodes, program.evidence.raised, c)
        if pair is None:
            stack = consumer.stack if consumer is not None else []
            out += span_of(role, stack, label, program.sources)
            continue
        made, used = pair
        out.append(span(role, used, label, program.sources, moment(consumer)))
        text = f"{called(program.sources, program.nodes, c) or 'the value'} gets its graph here"
        out.append(span(role, made, text, program.sources, moment(producer)))
    return distinct(out)[:3]


def use_places(program: Program, carries: Iterable[OlderEdge], label: str) -> tuple[Span, ...]:
    """Where the loss takes such a value up, in the function that has it in its hands."""
    out: list[Span] = []
    for c in distinct_carries(program.nodes, carries)[:MOST_PLACES]:
        pair = ends(program.evidence.sources, program.evidence.nodes, program.evidence.raised, c)
        if pair is not None:
            out.append(span("cause", pair[1], label, program.sources, moment(program.node(c.consumer))))
    return distinct(out)


def made_places(sources: SourceTexts, nodes: list[Node], carries: Iterable[OlderEdge], label: str) -> tuple[Span, ...]:
    """Where each value gets its graph, in the function from which it is used as well."""
    out: list[Span] = []
    for c in distinct_carries(nodes, carries)[:MOST_PLACES]:
        producer, consumer = node_with(nodes, c.producer), node_with(nodes, c.consumer)
        pair = meeting(producer, consumer) if producer is not None and consumer is not None else None
        frame = pair[0] if pair is not None else innermost_user(producer.stack) if producer is not None else None
        if frame is not None:
            out.append(span("cause", frame, label, sources, moment(producer)))
    return distinct(out)[:2]


def below_places(sources: SourceTexts, nodes: list[Node], carries: Iterable[OlderEdge]) -> tuple[Span, ...]:
    """The calls below which such a value is computed, in the function from which it is used as well."""
    out: list[Span] = []
    for c in distinct_carries(nodes, carries)[:MOST_PLACES]:
        producer, consumer = node_with(nodes, c.producer), node_with(nodes, c.consumer)
        pair = meeting(producer, consumer) if producer is not None and consumer is not None else None
        if producer is None or pair is None or pair[0] is innermost_user(producer.stack):
            continue
        out.append(
            span("related", pair[0], f"{called(sources, nodes, c) or 'the value'} is computed below this call", sources)
        )
    return distinct(out)[:3]


def earlier_uses(sources: SourceTexts, nodes: list[Node], reuse: Reuse) -> list[tuple[Frame, str]]:
    """Where the earlier loss, which lives no more, took up the shared value, as far as the source tells."""
    names: list[str] = []
    for c in distinct_carries(nodes, reuse.carries):
        producer, consumer = node_with(nodes, c.producer), node_with(nodes, c.consumer)
        pair = meeting(producer, consumer) if producer is not None and consumer is not None else None
        names += paths_of(c) + (bound_names(sources, pair[0]) if pair is not None else [])
    call = innermost_user(reuse.freeing.stack) if reuse.freeing is not None else None
    if call is None:
        return []
    plain = reuse.without_graph(call.function)
    # What was made of the value and has no graph has not brought it along, whatever name the source reads there.
    return [
        (frame, name)
        for frame, name in uses_in_loss(sources, call, list(dict.fromkeys(names)))
        if not (bound := set(bound_names(sources, frame))) or not bound <= plain
    ]


def aliases(sources: SourceTexts, nodes: list[Node], reuse: Reuse) -> list[Frame]:
    """Where a view of longer-lived data was bound to the name through which the failing pass writes into it; of the
    data themselves only where what it writes is no state that goes on."""
    out: list[Frame] = []
    for c in distinct_carries(nodes, reuse.carries):
        for node in (node_with(nodes, c.producer), node_with(nodes, c.consumer)):
            frame = innermost_user(node.stack) if node is not None else None
            if node is None or frame is None or not ("CopySlices" in node.op or writes_the_same(sources, frame)):
                continue
            found = alias_of(sources, frame)
            if found is not None and found not in out:
                out.append(found)
    return out


def is_entry(sources: SourceTexts, frame: Frame) -> bool:
    """Whether such a binding takes an entry of a store, by a subscript; else it is another name of what an object
    holds."""
    return code_at(sources, frame).endswith("]")


def _is_what(sources: SourceTexts, frame: Frame) -> str:
    return "a view" if is_entry(sources, frame) else "another name"


def cached_with(sources: SourceTexts, nodes: list[Node], reuse: Reuse) -> Frame | None:

    cached = any(
        "parametrize" in f.file and "cached" in f.function
        for c in reuse.carries
        if (n := node_with(nodes, c.producer)) is not None
        for f in n.stack
    )
    if not cached or reuse.failing is None:
        return None
    for frame in user_frames(reuse.failing.stack):
        root = tree(sources, frame.file)
        for node in ast.walk(root) if root is not None else ():
            if isinstance(node, ast.With) and covers(node, frame.line):
                for item in node.items:
                    if "cached" in ast.unparse(item.context_expr):
                        return frame_of(sources, frame.file, item.context_expr, frame.function)
    return None


def cached_context(sources: SourceTexts, nodes: list[Node], reuse: Reuse) -> tuple[Span, ...]:
    """The ``with parametrize.cached():`` around the loop, where a parametrization's cache keeps the old graph."""
    found = cached_with(sources, nodes, reuse)
    return (
        (span("cause", found, "the cache keeps the first pass's matrices with their graph", sources),) if found else ()
    )


def adding(program: Program, reuse: Reuse) -> list[Frame]:
    roots = roots_of(program.evidence.events, program.packages)
    out: list[Frame] = []
    for c in reuse.carries:
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        if producer is None or consumer is None:
            continue
        if not leads_to(c, producer, roots) and not reuse.goes_on(c):
            continue
        frame = innermost_user(consumer.stack)
        if frame is not None and frame not in out:
            out.append(frame)
    return out


def accumulators(program: Program, reuse: Reuse) -> tuple[Span, ...]:
    """The lines that add to a sum which still holds an earlier root."""
    return tuple(
        span("cause", f, "adds to a sum that an earlier backward call has already differentiated", program.sources)
        for f in adding(program, reuse)
    )[:2]
