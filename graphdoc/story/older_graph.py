"""What is told of an older graph that a backward call ran into: its tensors by name, the calls, the optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphdoc.evidence import Event, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.model import Span
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.carried_names import could_carry, handed_round, names_taken_up
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.saved_tensors import Saved
from graphdoc.program.spans import distinct, innermost_user, moment, span_of
from graphdoc.program.value_reads import beside_the_new, meeting, name_bound
from graphdoc.story.optimizers import all_told, told
from graphdoc.story.wording import folded, gathered, listing, of_entries

MOST_PLACES = 6
STEPPED = "a step has changed the weights that its backward needs"


def name_of(carry: OlderEdge) -> str:
    """What the program calls the carried tensor; a general word where nothing holds it any more."""
    return f"`{carry.tensor.name}`" if carry.tensor.name else "this tensor"


def called(sources: SourceTexts, nodes: list[Node], carry: OlderEdge) -> str:
    """The same, also by the name that the statement which made it gives it; empty where it has none."""
    holders = could_carry(sources, nodes, carry) if carry.tensor.name else []
    if holders:
        held = any(h.told == carry.tensor.name for h in holders)
        name = carry.tensor.name if held else holders[0].told
        return f"`{name if any(h.exact for h in holders) else of_entries(name, [h.told for h in holders])}`"
    producer, consumer = node_with(nodes, carry.producer), node_with(nodes, carry.consumer)
    pair = meeting(producer, consumer) if producer is not None and consumer is not None else None
    kept = beside_the_new(sources, carry, *pair) if pair is not None else ""
    names = [kept] if kept else names_taken_up(sources, nodes, carry)
    if not names and pair is not None and pair[0].line != pair[1].line:
        names = name_bound(sources, pair[0])
    if not names and (handed := handed_round(sources, nodes, carry)) is not None:
        names = [handed[1]]
    return f"`{names[0]}`" if names else ""


def names_of(sources: SourceTexts, nodes: list[Node], carries: Iterable[OlderEdge], most: int = 3) -> str:
    """The carried tensors by name, for a sentence; empty where none has a name."""
    names = gathered(n.strip("`") for c in carries if (n := called(sources, nodes, c)))
    return listing((f"`{name}`" for name in names), most)


def _owners(program: Program, names: set[str]) -> str:
    owners = [o for o in program.optimizers if names & set(o.parameters)]
    if not owners:
        return " (in no optimizer)" if program.owners.of(names).known else ""
    stepping = [o for o in owners if o.id not in program.never_stepped]
    if not stepping:
        return " (their optimizers never step)"
    return " (stepped by " + ", ".join(o.name or told(o, program.optimizers) for o in stepping[:3]) + ")"


def distinct_carries(nodes: list[Node], carries: Iterable[OlderEdge]) -> list[OlderEdge]:
    """One carry for each pair of places, newest first."""
    seen = set()
    out = []
    for c in carries:
        consumer, producer = node_with(nodes, c.consumer), node_with(nodes, c.producer)
        key = (_at(consumer), _at(producer))
        if key not in seen:
            seen.add(key)
            out.append(c)
    return out


def _at(node: Node | None) -> tuple[Any, ...]:
    return tuple(f.start for f in node.stack if f.user) if node else ()


def paths_of(c: OlderEdge) -> list[str]:
    return [h.base for h in c.tensor.holders] + [h.path for h in c.tensor.holders]


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
        frame = innermost_user(event.stack) if event is not None else None
        if event is not None and frame is not None:
            told.setdefault((frame.file, frame.line), []).append(event)
    for events in list(told.values())[:3]:
        event, own = events[0], {e.index for e in events}
        names = names_of(program.sources, program.nodes, (c for c in reuse.carries if c.freed_by in own), 2)
        graph = f"the graph behind {names}" if names else "that graph"
        does = f"{'walks and keeps' if event.retain_graph else 'frees'} {graph}"
        if stepped:
            does = "an update in between"  # what failed is a write, and nothing shows that this call was there before
        text = f"{does} ({_numbers(program.journal, events)})"
        out += span_of("freed", event.stack, text, program.sources, moment(event))
    if reuse.failing is not None:
        again = "both again" if len(told) == 2 else "it again"
        if stepped:
            again = "the weights of before"
        text = f"needs {again} ({numbered(program.journal, reuse.failing)})"
        out += span_of("failed", reuse.failing.stack, text, program.sources, moment(reuse.failing))
    return tuple(out)


def flow(sources: SourceTexts, nodes: list[Node], reuse: Reuse) -> tuple[Span, ...]:
    """Where each carried tensor was made and where the failing pass took it up."""
    out: list[Span] = []
    for c in distinct_carries(nodes, reuse.carries)[:3]:
        producer, consumer = node_with(nodes, c.producer), node_with(nodes, c.consumer)
        name = called(sources, nodes, c)
        if producer is not None:
            out += span_of("created", producer.stack, f"{name or 'the tensor'} is made here", sources, moment(producer))
        if consumer is not None:
            text = f"{name or 'it'} comes into this loss ({consumer.op})"
            out += span_of("consumed", consumer.stack, text, sources, moment(consumer))
    return tuple(out)


def facts_of(program: Program, reuse: Reuse) -> tuple[str, ...]:
    """What was measured: iterations, the held paths, the parameters behind and who trains them."""
    out: list[str] = []
    for c in distinct_carries(program.nodes, reuse.carries)[:3]:
        holder = next((h for h in c.tensor.holders), None)
        if holder is not None:
            how = "is held as" if holder.exact else "is kept under the name"
            shape = f" [{', '.join(str(n) for n in c.tensor.shape)}]" if c.tensor.shape else ""  # none is not seen, too
            name = holder.told if holder.exact else of_entries(holder.told, [h.told for h in c.tensor.holders])
            fact = f"the tensor{shape} {how} `{name}` in {holder.function}"
            if fact not in out:
                out.append(fact)
    if reuse.behind:
        out.append(f"behind it: {folded(reuse.behind)}{_owners(program, reuse.behind)}")
    if told := shares(program.evidence.extras, program.evidence.graph_size):
        out.append(told)
    return tuple(out)


def before(reuse: Reuse) -> str:
    """``made before backward #1``, the call that used the older graph up; without a number where it is not known, or
    where several calls did so with a value each."""
    several = len({c.freed_by for c in reuse.carries if c.freed_by >= 0}) > 1
    if reuse.freeing is None or several:
        return "before an earlier backward"
    return f"before {numbered(reuse.journal, reuse.freeing)}"


def shares(extras: dict[str, Any], graph_size: int) -> str:
    """``3 of the 51 nodes of this graph were used up before``; empty where they were not counted."""
    dead = extras.get("dead")
    if not isinstance(dead, int) or not dead or not graph_size:
        return ""
    return f"{dead} of the {graph_size} nodes of this graph were used up before"


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
            text = f"{optimizer.name or told(optimizer, program.optimizers)} steps {folded(mine)}"
            out += span_of("related", event.stack, text, program.sources, moment(event))
    return distinct(out)[:3]
