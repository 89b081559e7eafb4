"""Reads the traces that trial runs leave: calls, steps, sizes of gradients, and what the original is to be trained."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from graphdoc.evidence import Evidence, Raised, Sign
from graphdoc.program.exception import REFUSED_VIEW, SECOND_TIME, message_of
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user
from graphdoc.story.wording import in_words

# The size of a gradient as a trace tells it, and how far two of them are apart.

_ROUNDING = 1e-5
"""How far two gradients of one size may point apart by rounding alone, where sums are taken in another order."""


class Size(float):
    """The size of a gradient: the sum of its absolute values; and what tells it from others of that size: ``turned``,
    sums under patterns of signs, and ``norm``, of the elements that were looked at."""

    turned: tuple[float, ...] = ()
    norm: float = 0.0

    @classmethod
    def of(cls, told: float | Sequence[float]) -> Size:
        """From a trace."""
        total, *rest = [told] if isinstance(told, int | float) else told
        size = cls(total)
        if rest:
            size.turned, size.norm = tuple(rest[:-1]), rest[-1]
        return size

    def times(self, factor: float) -> Size:
        """That of the gradient times a number."""
        return Size.of([factor * x for x in (self, *self.turned, self.norm)])


def difference(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """The largest of their ``distances``."""
    return max(distances(a, b).values(), default=0.0)


def distances(a: Mapping[str, float], b: Mapping[str, float], largest: float = 0.0) -> dict[str, float]:
    """The relative difference of each; a gradient that is missing on one side counts as different altogether.

    Gradients below a hundredth of the largest one (of ``largest``, where none of these is) are measured against that:
    in exact arithmetic they may be zero, and rounding alone would make them differ.
    """
    scale = max((v for v in (*a.values(), *b.values()) if math.isfinite(v)), default=0.0)
    scale = max(scale, largest)
    return {k: apart(a.get(k, 0.0), b.get(k, 0.0), scale / 100) for k in sorted(a.keys() | b.keys())}


def apart(a: float, b: float, least: float = 0.0) -> float:
    """The relative difference of two sizes; of gradients of one size, how far these are apart in direction."""
    if math.isnan(a) and math.isnan(b):
        return 0.0
    if not math.isfinite(a) or not math.isfinite(b):
        return 0.0 if a == b else 1.0
    whole = max(abs(a), abs(b), least)
    gap = abs(a - b) / whole if whole else 0.0
    if not isinstance(a, Size) or not isinstance(b, Size) or len(a.turned) != len(b.turned):
        return gap
    norm = max(a.norm, b.norm)
    if not a.turned or not norm or not math.isfinite(norm):
        return gap
    turned = math.sqrt(sum((x - y) ** 2 for x, y in zip(a.turned, b.turned, strict=True)) / len(a.turned)) / norm
    turned *= max(abs(a), abs(b)) / whole
    return max(gap, turned if turned > _ROUNDING else 0.0)


# Reads the traces that trial runs leave, and answers questions about one of them.

Line = tuple[str, int]
"""A file as the frames name it, and a line from 1."""
Flow = tuple[Line, str]
"""The place of a backward call, and the key of a parameter to which it gave a gradient."""


@dataclass
class Call:
    """One backward or grad call. ``gained`` maps parameters to the size of the gradient that the call added.

    ``fresh`` are those that had no gradient before. ``measured`` is False for calls that were only counted. ``index``
    is the place in the order of all journal events. ``value`` is the sum of |root|, None where it was not measured.
    ``old`` are parameters behind nodes that an earlier call from this place had walked, stepped since then.
    ``stale`` are parameters that its graph has read before an optimizer wrote them. ``within`` is the optimizer that
    calls for it within its step, to step by it; -1 for none.
    ``loose`` counts the leaves of no optimizer that the call gave gradients, of ``loose_sum`` together. ``shares`` are
    the places of the earlier calls that had walked some of its nodes. ``drawn`` is how far the random numbers had come;
    empty for calls far from the failure. ``mean_over`` is how many numbers its loss is the mean of, 0 where not known,
    and ``weight`` what that mean is multiplied by.
    """

    kind: str
    number: int
    index: int
    place: Line
    nodes: int = 0
    gained: dict[str, float] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    loose: int = 0
    loose_sum: float = 0.0
    sums: list[float | None] = field(default_factory=list)
    measured: bool = False
    inner: bool = False
    value: float | None = None
    old: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    within: int = -1
    shares: frozenset[Line] = frozenset()
    drawn: str = ""
    mean_over: float = 0.0
    weight: float | None = None


@dataclass
class Step:
    """One optimizer step: sum of |p|, sum of |grad|, and the size of each parameter's gradient. ``left_out``: a
    GradScaler has told it that a gradient overflowed, and it moves nothing."""

    number: int
    index: int
    optimizer: int
    parameters: float
    gradients: float
    each: Mapping[str, float] = field(default_factory=dict)
    left_out: bool = False


@dataclass
class Seen:
    """An operation, a compiled region or a node of the graph, in a run that is compared with another.

    ``place`` is file, line, column, end line and end column of the user's expression, columns from 0 and -1 where not
    known; ``at`` the number of steps before it and which of its kind it is there. ``sizes`` are those of what it gave
    (``out``), of the gradients that it ``received``, and of those that it has ``given``. ``drawn`` is how
    far the random numbers had come after it. ``keys`` are the parameters that a region holds.
    """

    name: str
    place: list[Any]
    at: tuple[int, int]
    sizes: dict[str, list[Size | None]]
    module: str = ""
    drawn: str = ""
    keys: list[str] = field(default_factory=list)


@dataclass
class Trace:
    """What one process of a trial run did, in order. ``frozen`` are the optimizers' parameters without the flag.

    ``draws`` is how far the random numbers had come where each optimizer was made and where the first call was.
    ``shared`` has the optimizers that hold a parameter besides the one that held it first, which its key names.
    ``called`` are the names that the program has for its optimizers, where they were found. In runs that are compared
    ``seen`` is what was looked at, by number, ``shapes`` those of parameters, ``coarsest`` the largest rounding of a
    number that was met, ``device`` where parameters are, and ``others`` what the other ranks did. ``data`` are the sums
    of what entered modules from outside, by the number of steps before and the argument, ``batches`` their sizes, and
    ``ranks`` how many the program itself says it has, in a run that has one. ``random``: modules draw random numbers.
    """

    rank: int = -1
    order: list[Call | Step] = field(default_factory=list)
    optimizers: dict[int, str] = field(default_factory=dict)
    called: dict[int, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    frozen: frozenset[str] = frozenset()
    shared: dict[str, set[int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    draws: list[str] = field(default_factory=list)
    seen: dict[int, Seen] = field(default_factory=dict)
    shapes: dict[str, list[int]] = field(default_factory=dict)
    coarsest: float = 0.0
    device: str = "cpu"
    failed: str = ""
    ended: bool = False
    total_steps: int = 0
    total_calls: int = 0
    others: list[Trace] = field(default_factory=list)
    data: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    ranks: int = 1
    random: bool = False

    @cached_property
    def calls(self) -> list[Call]:
        return [c for c in self.order if isinstance(c, Call)]

    @cached_property
    def backwards(self) -> list[Call]:
        """The calls that accumulate gradients, without those made inside another call."""
        return [c for c in self.calls if c.kind == "backward" and not c.inner]

    @cached_property
    def steps(self) -> list[Step]:
        return [s for s in self.order if isinstance(s, Step)]

    def call_of(self, index: int) -> Call | None:
        """The call at this place in the order of all journal events; None where it was not recorded."""
        return next((c for c in self.calls if c.index == index), None)

    def calls_from(self, place: Line) -> list[Call]:
        """The calls from one line of the original, in their order."""
        return [c for c in self.calls if c.place == place]

    @property
    def last_index(self) -> int:
        """The place of the last recorded call or step in the order of all journal events; -1 where there is none."""
        return self.order[-1].index if self.order else -1

    def until(self, index: int) -> Trace:
        """The same trace up to this place in that order."""
        return replace(self, order=[entry for entry in self.order if entry.index <= index])

    def holders(self, key: str) -> set[int]:
        """The optimizers that hold a parameter."""
        return {int(key.partition(".")[0]), *self.shared.get(key, ())}

    def steps_of(self, optimizer: int) -> list[Step]:
        return [s for s in self.steps if s.optimizer == optimizer]

    def flows(self) -> set[Flow]:
        """Every pair of a backward place and a parameter to which it gave a gradient."""
        return {(c.place, key) for c in self.backwards for key, gain in c.gained.items() if gain}

    def used(self) -> set[Flow]:
        """The flows whose gradient an optimizer's step took, not cleared before."""
        return {(place, key) for _, key, places in self.taken() for place in places}

    def taken(self) -> list[tuple[int, str, frozenset[Line]]]:
        """What each step took for each parameter: the optimizer, the parameter, and the places of the calls that have
        given it the gradient since it was last cleared."""
        pending: dict[str, set[Line]] = {}
        taken: list[tuple[int, str, frozenset[Line]]] = []
        for entry in self.order:
            if isinstance(entry, Step):
                for key, total in entry.each.items():
                    if total and isfinite(total):
                        taken.append((entry.optimizer, key, frozenset(pending.get(key, ()))))
            elif entry.kind == "backward" and not entry.inner:
                for key, gain in entry.gained.items():
                    if key in entry.fresh:
                        pending[key] = set()
                    if gain:
                        pending.setdefault(key, set()).add(entry.place)
                if not entry.measured:
                    pending.clear()  # what it has added to, and what had been cleared before it, is not known
        return taken

    def used_keys(self) -> set[str]:
        """The parameters that some step had a finite gradient for that is not zero."""
        return {key for step in self.steps for key, total in step.each.items() if total and isfinite(total)}

    def trains(self) -> dict[Line, set[int]]:
        """For each backward place the optimizers that step next after it, before another backward is called."""
        found: dict[Line, set[int]] = {}
        waiting: set[Line] = set()
        stepping = False
        for entry in self.order:
            if isinstance(entry, Step):
                stepping = True
                for place in waiting:
                    found.setdefault(place, set()).add(entry.optimizer)
            elif entry.kind == "backward" and not entry.inner:
                if stepping:
                    waiting, stepping = set(), False
                waiting.add(entry.place)
        return found

    def trained_by(self, call: Call) -> set[int]:
        """The optimizers that step next after this very call, before another backward is called; where none does, those
        that step after others from its place. Several agents may share one line, each with optimizers of its own."""
        found: set[int] = set()
        for entry in self.order[self.order.index(call) + 1 :]:
            if isinstance(entry, Step):
                found.add(entry.optimizer)
            elif found and entry.kind == "backward" and not entry.inner:
                break
        return found or self.trains().get(call.place, set())

    def is_past(self, failing: int, refused_write: bool) -> bool:
        """Whether the run came past the event that failed: by the call itself, which is noted once it has ended, or by
        a later event. A write that was refused comes before the event of that number."""
        if failing < 0:
            return False
        ended = any(c.index == failing and not c.inner for c in self.calls)
        return ended or any(e.index >= failing + (not refused_write) for e in self.order)

    def rekey(self, other: Trace) -> None:
        """Give parameters the keys that they have in another run, where both runs know their names.

        What stands at a key that another takes, and is not in that run, gets one behind all of them: a patch that
        makes a parameter shifts those behind it.
        """
        mine = {name: key for key, name in self.names.items()}
        theirs = {name: key for key, name in other.names.items()}
        both = [n for n in mine if n in theirs]
        if len(mine) != len(self.names) or len(theirs) != len(other.names):
            return  # a name that stands for two parameters tells nothing
        table = {mine[n]: theirs[n] for n in both if mine[n] != theirs[n]}
        if not table:
            return
        slots = [int(slot) for key in {*self.names, *other.names} if (slot := key.partition(".")[2]).isdigit()]
        displaced = sorted(set(table.values()) & (set(self.names) - set(table)))
        for number, key in enumerate(displaced, max(slots, default=0) + 1):
            table[key] = f"{key.partition('.')[0]}.{number}"
        for entry in self.order:
            if isinstance(entry, Call):
                entry.gained = {table.get(k, k): v for k, v in entry.gained.items()}
                entry.fresh = frozenset(table.get(k, k) for k in entry.fresh)
                entry.old = [table.get(k, k) for k in entry.old]
                entry.stale = [table.get(k, k) for k in entry.stale]
            else:
                entry.each = {table.get(k, k): v for k, v in entry.each.items()}
        self.names = {table.get(k, k): v for k, v in self.names.items()}
        self.shapes = {table.get(k, k): v for k, v in self.shapes.items()}
        self.frozen = frozenset(table.get(k, k) for k in self.frozen)
        self.shared = {table.get(k, k): v for k, v in self.shared.items()}

    def optimizer_name(self, optimizer: int) -> str:
        """How a sentence calls an optimizer."""
        held = [name for key, name in self.names.items() if key.startswith(f"{optimizer}.")]
        kind = self.optimizers.get(optimizer, "an optimizer")
        return in_words(self.called.get(optimizer, ""), kind, held, optimizer + 1)

    def name(self, key: str) -> str:
        """A parameter as the user has it, or its place among the optimizers' parameters."""
        number, _, slot = key.partition(".")
        return self.names.get(key) or f"parameter {slot} of {self.optimizer_name(int(number))}"


def read_trace(folder: Path) -> Trace | None:
    """The trace of the process that did most, of rank 0 where there are ranks; None where no process left one."""
    traces = [_parse(file) for file in sorted(folder.glob("trace-*.jsonl"))]
    first = [t for t in traces if t.rank <= 0]
    trace = max(first, key=lambda t: (len(t.calls), len(t.steps), len(t.optimizers)), default=None)
    if trace is not None:
        trace.others = [t for t in traces if t.rank > 0]
    return trace


def _parse(file: Path) -> Trace:
    trace = Trace()
    for record in _records(file):
        kind = record.get("k")
        if "draws" in record:
            trace.draws.append(record["draws"])
        if kind in ("backward", "grad"):
            trace.order.append(_call(record))
        elif kind == "step":
            each = {key: Size.of(told) for key, told in record["each"].items()}
            step = Step(record["n"], record["e"], record["o"], record["p"], record["g"], each)
            step.left_out = bool(record.get("left_out"))
            trace.order.append(step)
        elif kind == "optimizer":
            trace.optimizers[record["o"]] = record["type"]
        elif kind == "names":
            trace.names.update(record["names"])
            trace.frozen = frozenset(record.get("frozen", ()))
            trace.called.update((int(o), name) for o, name in record.get("called", {}).items())
        elif kind == "holds":
            for key in record["keys"]:
                trace.shared.setdefault(key, set()).add(record["o"])
        elif kind == "warning":
            trace.warnings.append(record["text"])
        elif kind == "failed":
            trace.failed = f"{record['type']}: {record['message']}"
        elif kind in ("start", "rank"):
            trace.rank = record["rank"]
        if kind in ("end", "count"):
            trace.total_steps, trace.total_calls = record["steps"], record["calls"]
            trace.ended = kind == "end"
        _compared(trace, record)
    trace.total_steps = max(trace.total_steps, len(trace.steps))
    trace.total_calls = max(trace.total_calls, len(trace.calls))
    return trace


def _call(record: dict[str, Any]) -> Call:
    file, line = record["place"]
    gained = record.get("gained", ())
    return Call(
        record["k"],
        record["n"],
        record["e"],
        (str(file), int(line)),
        gained={key: Size.of(gain) for key, gain, _ in gained},
        fresh=frozenset(key for key, _, fresh in gained if fresh),
        measured="nodes" in record,
        inner=bool(record.get("inner")),
        shares=frozenset((str(file), int(line)) for file, line in record.get("shares", ())),
        **{name: record[name] for name in _AS_WRITTEN if name in record},
    )


_AS_WRITTEN = ("nodes", "loose", "loose_sum", "sums", "value", "old", "stale", "within", "drawn", "mean_over", "weight")
"""Fields of a call that a trace has under their own names."""


def added(a: list[float] | None, b: list[float]) -> list[float]:
    """The sums of both."""
    return [x + y for x, y in zip(a, b, strict=True)] if a and len(a) == len(b) else b


def _compared(trace: Trace, record: dict[str, Any]) -> None:
    """What only runs that are compared with others record."""
    kind = record.get("k")
    if kind == "coarsest":
        trace.coarsest = record["eps"]
    elif kind == "shapes":
        trace.shapes.update(record["shapes"])
    elif kind == "device":
        trace.device = record["type"]
    elif kind == "random":
        trace.random = True
    elif kind == "ranks":
        trace.ranks = record["told"]
    elif kind == "batches":
        trace.batches.append(record["size"])
    elif kind == "data":
        key = record["at"], record["slot"]
        trace.data[key] = added(trace.data.get(key), record["sums"])
    elif kind == "seen":
        sizes = {k: [None if one is None else Size.of(one) for one in told] for k, told in record["sizes"].items()}
        steps, number = record["at"]
        more = {k: record[k] for k in ("module", "drawn", "keys") if k in record}
        trace.seen[record["i"]] = Seen(record["name"], record["place"], (steps, number), sizes, **more)
    elif kind == "size":
        stage = trace.seen[record["i"]].sizes.setdefault(record["stage"], [])
        stage += [None] * (record["at"] + 1 - len(stage))
        stage[record["at"]] = Size.of(record["size"])


def _records(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a trace; the last one may be cut off, where the process was killed while it wrote."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            return
        if isinstance(record, dict):
            yield record


# What the evidence of the original run tells a trial: where it failed, and what is to receive gradient.


def failing_index(evidence: Evidence) -> int:
    """The journal index of the backward call that failed; -1 where the failure came from no such call.

    For a write into one of several views, which a reference run lets pass: the index of the event that follows.
    """
    if evidence.went_on:
        return -1
    if evidence.failing_event >= 0:
        return evidence.failing_event
    if refused_views(evidence.raised):
        return max((e.index for e in evidence.events), default=-1) + 1
    return max((e.index for e in evidence.events if e.failed), default=-1)


def point_of_failure(evidence: Evidence) -> int:
    """The journal index at which the run failed, whatever failed; -1 where the journal is empty. Of a run that went on:
    where all of its signs were certain."""
    if evidence.went_on:
        return max((s.event for s in evidence.signs if not s.weak), default=-1)
    failing = failing_index(evidence)
    return failing if failing >= 0 else max((e.index for e in evidence.events), default=-1)


def refused_views(raised: Raised | None) -> bool:
    """Whether the run ended with the refusal to write into one of several views that one call has returned."""
    return message_of(raised, *REFUSED_VIEW) is not None


def own_graph(evidence: Evidence) -> frozenset[str]:
    """Parameters that a second backward reached by nodes newer than the first, whatever is done about the old ones."""
    return frozenset(evidence.fresh_reaches) if message_of(evidence.raised, *SECOND_TIME) else frozenset()


def behind_what_was_made_once(reuse: Reuse | None) -> frozenset[str]:
    """Parameters behind a value that was computed once, and that each call of the failing place takes in."""
    made_once = reuse is not None and reuse.lifetime is Lifetime.MADE_ONCE
    return frozenset(reuse.behind) if reuse is not None and made_once else frozenset()


def reached_from(evidence: Evidence) -> dict[Line, frozenset[str]]:
    """Names of the parameters behind each backward call, by its place; empty where those of a place are not known.

    What the failing call reaches is known from the graph as it was left.
    """
    found: dict[Line, set[str]] = {}
    for event in evidence.events:
        frame = innermost_user(event.stack)
        if event.kind != "backward" or frame is None:
            continue
        names = found.setdefault((frame.file, frame.line), set())
        names |= set(evidence.reaches if event.index == evidence.failing_event else event.reaches)
    return {place: frozenset(names) for place, names in found.items()} if all(found.values()) else {}


def expected_names(program: Program) -> frozenset[str]:
    """Parameters that an optimizer owns and that received gradient, or were about to when the run failed.

    Not those of optimizers that are never stepped: networks that follow others are often given one all the same. Nor
    what the call that failed was about to give to others than it works for, and that have not stepped at all: a run
    that ends soon behind it may not come to where their own loss does that. What the steps so far had no gradient for
    is not promised one by a derivative, ``autograd.grad``, that was cut off.
    """
    works_for = program.journal.works_for(program.failing) if program.failing is not None else frozenset[int]()
    stepped = {o.id for o in program.evidence.optimizers if o.steps}
    begun = works_for | stepped
    waiting = {p.name for p in program.parameters if works_for and p.owners and not begun & set(p.owners)}
    owned = {p.name for p in program.parameters if set(p.owners) - program.never_stepped and not p.buffer}
    had = {p.name for p in program.parameters if p.steps_with_grad > 0}
    behind = {name for cut in program.cuts for name in cut.behind}
    if (
        program.failing is not None
        and program.failing.kind == "grad"
        and any(p.steps_with_grad for p in program.parameters)
    ):
        behind &= had
    return frozenset(owned & (had | (set(program.evidence.reaches) - waiting) | behind))


def covered_places(signs: list[Sign]) -> frozenset[Line]:
    """Where a run that went on called backward on what reaches no parameter."""
    at = (innermost_user(s.stack) for s in signs if s.kind == "covered-loss")
    return frozenset((f.file, f.line) for f in at if f is not None)


def stepped_between(trace: Trace, freed: int, failing: int) -> bool:
    """Whether an optimizer stepped after the call that released a graph and before the one that needed it again.

    Then the graph was of older values, and making it live on is no way to the gradient that is wanted.
    """
    if freed < 0:
        freed = max((c.index for c in trace.calls if c.index < failing), default=failing)
    return any(freed < step.index < failing for step in trace.steps)
