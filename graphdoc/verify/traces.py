"""Reads the traces that trial runs leave, and answers questions about one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from graphdoc.story.wording import in_words
from graphdoc.verify.gradient_sizes import Size

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
    empty for calls far from the failure.
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
    resident: int = 0
    left_out: bool = False


@dataclass
class Trace:
    """What one process of a trial run did, in order. ``frozen`` are the optimizers' parameters without the flag.

    ``draws`` is how far the random numbers had come where each optimizer was made and where the first call was.
    ``shared`` has the optimizers that hold a parameter besides the one that held it first, which its key names.
    ``called`` are the names that the program has for its optimizers, where they were found.
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
    failed: str = ""
    ended: bool = False
    total_steps: int = 0
    total_calls: int = 0

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
    traces = [t for t in traces if t.rank <= 0]
    return max(traces, key=lambda t: (len(t.calls), len(t.steps), len(t.optimizers)), default=None)


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
            trace.order.append(
                Step(
                    record["n"],
                    record["e"],
                    record["o"],
                    record["p"],
                    record["g"],
                    each,
                    record["rss"],
                    bool(record.get("left_out")),
                )
            )
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
    trace.total_steps = max(trace.total_steps, len(trace.steps))
    trace.total_calls = max(trace.total_calls, len(trace.calls))
    return trace


def _call(record: dict[str, Any]) -> Call:
    gained = record.get("gained", ())
    return Call(
        record["k"],
        record["n"],
        record["e"],
        (str(record["place"][0]), int(record["place"][1])),
        record.get("nodes", 0),
        {key: Size.of(gain) for key, gain, _ in gained},
        frozenset(key for key, _, fresh in gained if fresh),
        record.get("loose", 0),
        record.get("loose_sum", 0.0),
        record.get("sums", []),
        "nodes" in record,
        bool(record.get("inner")),
        record.get("value"),
        record.get("old", []),
        record.get("stale", []),
        record.get("within", -1),
        frozenset((str(file), int(line)) for file, line in record.get("shares", ())),
        record.get("drawn", ""),
    )


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
