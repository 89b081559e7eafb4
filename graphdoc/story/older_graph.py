"""What is told of an older graph that a backward call ran into: its tensors by name, the calls, the places."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.finding import distinct
from graphdoc.model import Role, Span
from graphdoc.program.bindings import frame_of, statement_at, tree
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.carried_names import (
    Carried,
    bound_names,
    by_places,
    is_sum_that_goes_on,
    name_bound,
    uses_in_loss,
)
from graphdoc.program.container_entries import alias_of, user_frames, writes_the_same
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Saved
from graphdoc.program.reuse import Reuse
from graphdoc.program.rounds import leads_to, roots_of
from graphdoc.program.spans import code_at, loop_of, moment, span, span_of, user_line, where
from graphdoc.source.module import each
from graphdoc.source.paths import covers
from graphdoc.story.wording import all_told, folded, gathered, listing, of_entries, told

MOST_PLACES = 6
STEPPED = "a step has changed weights that this graph needs"


def called(carry: Carried) -> str:
    """What the program calls the carried tensor, also by the name that the statement which made it gives it; empty
    where it has none."""
    holders = carry.could_carry if carry.tensor.name else []
    if holders and (stored := _stored_for_later(carry)) is not None:
        return f"`{stored[1]}`"
    if holders:
        held = any(h.told == carry.tensor.name for h in holders)
        name = carry.tensor.name if held else holders[0].told
        return f"`{name if any(h.exact for h in holders) else of_entries(name, [h.told for h in holders])}`"
    pair = carry.meeting
    kept = carry.beside_the_new(*pair) if pair is not None else ""
    names = [kept] if kept else carry.names_taken_up
    if not names and pair is not None and pair[0].line != pair[1].line:
        names = name_bound(carry.run.sources, pair[0])
    if not names and carry.handed_round is not None:
        names = [carry.handed_round[1]]
    return f"`{names[0]}`" if names else ""


def _stored_for_later(carry: Carried) -> tuple[Frame, str] | None:
    """The statement that has stored the older value under another name than the one that has a newer value by then.

    Asked where nothing holds that value itself any more: by its places alone it might be of either name.
    """
    return None if any(h.exact for h in carry.holders) else carry.stored_on


def names_of(carries: Iterable[Carried], most: int = 3) -> str:
    """The carried tensors by name, for a sentence; empty where none has a name."""
    names = gathered(n.strip("`") for c in carries if (n := called(c)))
    return listing((f"`{name}`" for name in names), most)


def _owners(program: Program, names: set[str]) -> str:
    owners = [o for o in program.optimizers if names & set(o.parameters)]
    if not owners:
        return ", in no optimizer" if program.owners.of(names).known else ""
    stepping = [o for o in owners if o.id not in program.never_stepped]
    if not stepping:
        return ", whose optimizers never step"
    return ", updated by " + listing(told(o, program.optimizers) for o in stepping)


def several(names: str) -> bool:
    """Whether what ``names_of`` gave is to be spoken of in the plural."""
    return " and " in names


def call_name(event: Event) -> str:
    return "autograd.grad()" if event.kind == "grad" else "backward()"


def numbered(journal: Journal, event: Event) -> str:
    """``backward #35``: the call by its number in the run, or by its name where the journal does not know that."""
    number = journal.number(event)
    word = "autograd.grad" if event.kind == "grad" else "backward"
    return f"{word} #{number}" if number is not None else call_name(event)


def _numbers(journal: Journal, events: list[Event]) -> str:
    """``backward #1``, ``backward #1…#5``: calls of one place, the first and the last, by their numbers in the run."""
    ends = min(events, key=lambda e: e.index), max(events, key=lambda e: e.index)
    first, last = numbered(journal, ends[0]), numbered(journal, ends[1]).partition("#")[2]
    if len(events) == 1 or not last:
        return first
    return f"{first}{', ' if len(events) == 2 else '…'}#{last}"


def stepped_since(program: Program, reuse: Reuse) -> bool:
    """Whether all that is known to be wrong with the older graph is that a step has written its weights: no call has
    used it up, and none has kept it either."""
    found = program.overwrite
    calls = [e for c in reuse.carries if (e := program.evidence.event(c.freed_by)) is not None]
    stepped = found is not None and found.saved is Saved.PARAMETER and found.by_step
    return stepped and not reuse.used_up and not any(e.retain_graph for e in (*calls, reuse.freeing) if e is not None)


def calls_of(program: Program, reuse: Reuse) -> tuple[Span, ...]:
    """The earlier backward calls and the one that failed."""
    out: list[Span] = []
    told: dict[tuple[str, int], list[Event]] = {}
    first = [reuse.freeing.index] if reuse.freeing is not None else []
    stepped = stepped_since(program, reuse)
    for index in dict.fromkeys([*first, *(c.freed_by for c in reuse.carries)]):
        event = program.evidence.event(index)
        frame = user_line(event)
        if event is not None and frame is not None:
            told.setdefault((frame.file, frame.line), []).append(event)
    for events in list(told.values())[:3]:
        event, own = events[0], {e.index for e in events}
        names = names_of((c for c in reuse.carries if c.freed_by in own), 2)
        graph = f"the graph of {names}" if names else "that graph"
        leaves = "goes through and keeps" if event.retain_graph else "frees"
        does = f"{leaves if not program.evidence.as_if else 'goes through'} {graph}"
        if stepped:
            break  # what failed is a write, and nothing shows that this call went through the graph
        text = f"{does} ({_numbers(program.journal, events)})"
        out += span_of("freed", event.stack, text, moment(event))
    found = program.overwrite
    writer = found.writers[0] if stepped and found is not None and found.writers else None
    if found is not None and writer is not None and writer.frame is not None:
        text = f"`{writer.op}` changes the weights in between"
        out.append(span("mutated", writer.frame, text, moment(found.made_by(writer))))
    if reuse.failing is not None:
        again = "both again" if len(told) == 2 else "it again"
        if stepped:
            again = "the weights from before"
        does = "goes through" if program.evidence.as_if else "needs"
        text = f"{does} {again} ({numbered(program.journal, reuse.failing)})"
        out += span_of("failed", reuse.failing.stack, text, moment(reuse.failing))
    return tuple(out)


def flow(reuse: Reuse) -> tuple[Span, ...]:
    """Where each carried tensor was made and where the failing pass took it up."""
    out: list[Span] = []
    for c in reuse.values[:3]:
        name = called(c)
        out += span_of("created", c.made.stack, f"{name or 'the tensor'} is made here", moment(c.made))
        if c.taken is not None:
            text = f"{name or 'it'} comes into this loss ({c.taken.op})"
            out += span_of("consumed", c.taken.stack, text, moment(c.taken))
    return tuple(out)


def facts_of(program: Program, reuse: Reuse) -> tuple[str, ...]:
    """What was measured: iterations, the held paths, the parameters behind and who trains them."""
    out: list[str] = []
    for c in reuse.values[:3]:
        for holder in c.holders[:1]:
            how = "is held as" if holder.exact else "is kept under the name"
            shape = f" [{', '.join(str(n) for n in c.tensor.shape)}]" if c.tensor.shape else ""  # none is not seen, too
            name = holder.told if holder.exact else of_entries(holder.told, [h.told for h in c.holders])
            fact = f"the tensor{shape} {how} `{name}` in {holder.function}"
            if fact not in out:
                out.append(fact)
    if reuse.behind:
        out.append(f"computed from {folded(reuse.behind)}{_owners(program, reuse.behind)}")
    if told := shares(program.evidence.extras, program.evidence.graph_size):
        out.append(told)
    return tuple(out)


def cloned(program: Program, reuse: Reuse) -> str:
    """Why the program's own ``clone()`` of a carried tensor did not help, as the end of a sentence; empty where there
    is none. PyTorch records ``contiguous()`` in the same way."""
    nodes = (n for c in reuse.carries for n in (c.made, c.taken))
    frames = (user_line(n) for n in nodes if n is not None and n.op.startswith("CloneBackward"))
    at = next((f for f in frames if f is not None and "clone(" in code_at(program.sources, f)), None)
    return f"; `clone()` at {where(at)} copies the numbers and keeps the graph" if at is not None else ""


def before(reuse: Reuse) -> str:
    """``made before backward #1``, the call that used the older graph up; without a number where it is not known, or
    where several calls did so with a value each."""
    several = len({c.freed_by for c in reuse.carries if c.freed_by >= 0}) > 1
    if reuse.freeing is None or several:
        return "before an earlier backward"
    return f"before {numbered(reuse.journal, reuse.freeing)}"


def shares(extras: dict[str, Any], graph_size: int) -> str:
    """``3 of the 51 nodes of this graph had been freed before``; empty where they were not counted."""
    dead = extras.get("dead")
    if not isinstance(dead, int) or not dead or not graph_size:
        return ""
    return f"{dead} of the {graph_size} nodes of this graph had been freed before"


def trained_by(program: Program, names: set[str]) -> str:
    """``trained by `v_optimizer` and `q_optimizer```, or that no optimizer has them; one that no line of the program
    steps trains nothing. Where these hold a part of them, how many that are."""
    found = program.owners.of(names)
    training = found.optimizers - program.never_stepped
    if training:
        held = names & program.owners.parameters(training)
        part = f"{len(held)} of them " if len(held) < len(names) else ""
        return f"{part}trained by {listing(all_told(program.optimizers, training))}"
    if found.optimizers:
        return "whose optimizers never step"
    return "in no optimizer" if found.known else "which no optimizer is known to have"


def steps_of(program: Program, reuse: Reuse) -> tuple[Span, ...]:
    """Where the optimizers step that own what lies behind, with the parameters by name."""
    out: list[Span] = []
    for optimizer in program.optimizers:
        mine = reuse.behind & set(optimizer.parameters)
        event = next(
            (e for e in reversed(program.evidence.events) if e.kind == "step" and e.optimizer == optimizer.id), None
        )
        if mine and event is not None:
            text = f"{told(optimizer, program.optimizers)} steps {folded(mine)}"
            out += span_of("related", event.stack, text, moment(event))
    return distinct(out)[:3]


# The places that an older graph sends a reader to: where its tensors are kept, made, read, and added up.

MADE = "made here with its graph"


def cause_places(program: Program, reuse: Reuse, label: str, making: str = "") -> tuple[Span, ...]:
    """Where a reader should go for something that is kept: the statements that keep it, then where it was made.

    ``making`` is the label of the latter, where it is empty ``label`` if nothing else is told. The start of a
    recurrence is not told.
    """
    sources = program.sources
    outlives = ((f, "a view" if is_entry(sources, f) else "another name") for f in aliases(reuse))
    kept = [span("cause", f, f"{what} of data that outlive this pass") for f, what in outlives]
    kept += keeping_places(reuse, label)
    made: list[Span] = []
    for c in reuse.values[:MOST_PLACES]:
        for frame in c.making[:1] if not reuse.is_start(c) else ():
            told = making or (MADE if kept else label)
            made.append(span("cause", frame, told, moment(c.made)))
    made = [m for m in made if not any(is_within(m, k) for k in kept[:2])]
    return distinct((*kept[:2], *made[: 3 - len(kept[:2])]))[:3]


def kept_apart(reuse: Reuse) -> bool:
    """Whether each value is kept by another statement than the one that makes it (``tau = f(x)``, ``self.tau = tau``):
    of the latter it is not known whether it has run again since."""
    kept = keeping_places(reuse, "")
    made = [span("cause", f, "") for c in reuse.values for f in c.making[:1]]
    return bool(kept and made) and not any(is_within(m, k) for m in made for k in kept)


def keeping_places(reuse: Reuse, label: str) -> tuple[Span, ...]:
    """The statements that keep something for a later pass; none where nothing but its first name does."""
    kept: list[Span] = []
    for c in reuse.values[:MOST_PLACES]:
        stored = _stored_for_later(c)
        if stored is not None and c.holders:
            kept.append(span("cause", stored[0], label, moment(c.made)))
            continue
        holders = c.carrying_holders
        statements = c.kept_at(holders)[:2]
        for frame in _in_rounds(reuse, c, statements):
            kept.append(span("cause", frame, label, moment(c.made)))
        on_object = bool(holders) and all(any(s.kind == "attribute" for s in h.steps) for h in holders)
        recurs = reuse.lifetime is Lifetime.RECURS and not on_object and not any(h.exact for h in c.holders)
        if statements and holders and c.handed_round is not None:
            continue  # the call that hands it round keeps nothing beside them
        carrying = (c.carried_on or c.stored_on) if recurs else None
        if carrying is not None:
            kept.append(span("cause", carrying[0], label, moment(c.taken)))
    return distinct(kept)


def _in_rounds(reuse: Reuse, carry: Carried, kept: list[Frame]) -> list[Frame]:
    """Of the statements that keep a value which recurs, those in a loop and the one that made it: the others give it
    its start. All of them where none is of these, as where a package runs the loop and the value has another name."""
    if reuse.lifetime is not Lifetime.RECURS:
        return kept
    sources = carry.run.sources
    alike = [f for f in kept if loop_of(sources, f) is not None or any(m.on_lines_of(f) for m in carry.making)]
    return alike or _renewing(sources, user_line(carry.made)) or kept


def _renewing(sources: SourceTexts, at: Frame | None) -> list[Frame]:
    """The statement that makes a value and puts it into an entry or an attribute: it may bear another name there than
    where it begins (``self.seen["mean"] = …`` of a dict that the program calls ``moments``)."""
    statement = statement_at(sources, at)
    if at is None or not isinstance(statement, ast.Assign | ast.AugAssign):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    stores = all(isinstance(t, ast.Subscript | ast.Attribute) for t in targets)
    return [frame_of(sources, at, statement)] if stores else []


def is_within(place: Span, told: Span) -> bool:
    """Whether a place lies on the lines of one that is told already."""
    return place.file == told.file and told.line <= place.line and place.end_line <= told.end_line


def constant_places(carries: Iterable[Carried], label: str, role: Role = "cause") -> tuple[Span, ...]:
    """Where a value that should be a constant is bound, and where the loss takes it up."""
    out: list[Span] = []
    for c in by_places(carries)[:MOST_PLACES]:
        if c.ends is None:
            out += span_of(role, c.taken.stack if c.taken is not None else [], label)
            continue
        made, used = c.ends
        out.append(span(role, used, label, moment(c.taken)))
        text = f"{called(c) or 'the value'} is computed here, with its graph"
        out.append(span(role, made, text, moment(c.made)))
    return distinct(out)[:3]


def use_places(carries: Iterable[Carried], label: str) -> tuple[Span, ...]:
    """Where the loss takes such a value up, in the function that has it in its hands."""
    found = [(c, c.ends[1]) for c in by_places(carries)[:MOST_PLACES] if c.ends is not None]
    return distinct(span("cause", used, label, moment(c.taken)) for c, used in found)


def made_places(carries: Iterable[Carried], label: str) -> tuple[Span, ...]:
    """Where each value gets its graph, in the function from which it is used as well."""
    found = [(c, c.meeting[0] if c.meeting else user_line(c.made)) for c in by_places(carries)[:MOST_PLACES]]
    return distinct(span("cause", f, label, moment(c.made)) for c, f in found if f is not None)[:2]


def below_places(carries: Iterable[Carried]) -> tuple[Span, ...]:
    """The calls below which such a value is computed, in the function from which it is used as well."""
    pairs = [(c, c.meeting[0]) for c in by_places(carries)[:MOST_PLACES] if c.meeting is not None]
    calls = [(c, made) for c, made in pairs if made is not c.making[0]]
    text = "is computed below this call"
    return distinct(span("related", f, f"{called(c) or 'the value'} {text}") for c, f in calls)[:3]


def earlier_uses(reuse: Reuse) -> list[tuple[Frame, str]]:
    """Where the earlier loss, which lives no more, took up the shared value, as far as the source tells."""
    names: list[str] = []
    for c in reuse.values:
        names += c.paths + (bound_names(c.run.sources, c.meeting[0]) if c.meeting is not None else [])
    call, sources = user_line(reuse.freeing), reuse.sources
    if call is None:
        return []
    plain = reuse.without_graph(call.function)
    # What was made of the value and has no graph has not brought it along, whatever name the source reads there.
    return [
        (frame, name)
        for frame, name in uses_in_loss(sources, call, list(dict.fromkeys(names)))
        if not (bound := set(bound_names(sources, frame))) or not bound <= plain
    ]


def aliases(reuse: Reuse) -> list[Frame]:
    """Where a view of longer-lived data was bound to the name through which the failing pass writes into it; of the
    data themselves only where what it writes is no state that goes on."""
    out: list[Frame] = []
    for c in reuse.values:
        for node in (c.made, c.taken):
            frame, sources = user_line(node), c.run.sources
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


def cached_with(reuse: Reuse) -> Frame | None:
    """The ``with parametrize.cached():`` around the failing call, where that cache keeps the old graph."""
    makers = [f for c in reuse.carries for f in c.made.stack]
    cached = any("parametrize" in f.file and "cached" in f.function for f in makers)
    return with_around(reuse.sources, reuse.failing.stack, "cached") if cached and reuse.failing is not None else None


def with_around(sources: SourceTexts, stack: Sequence[Frame], word: str) -> Frame | None:
    """What the innermost ``with`` around a call enters whose expression has this word; None where there is none."""
    for frame in user_frames(stack):
        for node in each(tree(sources, frame.file), ast.With):
            items = [i.context_expr for i in node.items] if covers(node, frame.line) else []
            for item in items:
                if word in ast.unparse(item):
                    return frame_of(sources, frame, item)
    return None


def cached_context(reuse: Reuse) -> tuple[Span, ...]:
    """The ``with parametrize.cached():`` around the loop, where a parametrization's cache keeps the old graph."""
    text, found = "the cache keeps the first pass's matrices with their graph", cached_with(reuse)
    return span_of("cause", found, text)


def adding(program: Program, reuse: Reuse) -> list[Frame]:
    roots = roots_of(program.evidence.events, program.packages)
    out: list[Frame] = []
    for c in reuse.carries:
        frame = user_line(c.taken)
        if frame is not None and frame not in out and (leads_to(c, roots) or is_sum_that_goes_on(c)):
            out.append(frame)
    return out


def accumulators(program: Program, reuse: Reuse) -> tuple[Span, ...]:
    """The lines that add to a sum which still holds an earlier root."""
    return tuple(
        span("cause", f, "adds to a sum that an earlier backward call has already differentiated")
        for f in adding(program, reuse)
    )[:2]
