"""Compares two runs of one program: which parameters other gradients were given, and where these part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby, zip_longest
from math import isfinite
from statistics import median

from graphdoc.evidence import Evidence
from graphdoc.verify.compared import TOLERANCE
from graphdoc.verify.measures import counterpart, draws_elsewhere
from graphdoc.verify.traces import Call, Line, Seen, Size, Step, Trace, added, apart, distances

FACTOR = 20
"""How many times as far as by moved weights two runs may be apart: each of their operations rounds as well."""
LEAST_EPS = 4
"""How many times the coarsest rounding of the run is explained in any case, besides ``TOLERANCE``."""
UNTOLD = 0.5
"""Where rounding alone moves numbers by so much of their size, nothing can be told of them."""


@dataclass
class Part:
    """A parameter whose gradient is another at one step: how far apart, and how far rounding explains; ``lost``: it
    has none in the second run, ``gained``: it had none in the first."""

    name: str
    apart: float
    explained: float
    lost: bool = False
    gained: bool = False


@dataclass
class Parting:
    """Where two runs part: what is seen there, and whether its result is another (``out``), the gradient that it has
    ``received``, only those that it has ``given`` for an equal one, or what is all done ``within`` it."""

    seen: Seen
    stage: str
    module: str = ""


@dataclass
class Calls:
    """The backward calls whose gradients a step is given; ``value`` is that of their losses together, None where one
    was not measured. ``means``: each loss, on all ranks, and how many numbers it is the mean of; empty where not all of
    that is known."""

    count: int
    place: Line
    value: float | None
    means: list[tuple[float, float]] = field(default_factory=list)


@dataclass
class Compared:
    """What the first steps of two runs were given. ``step`` counts those of one optimizer from 1; ``explained`` is how
    far apart rounding may bring most gradients; ``untold`` says why nothing can be told. ``factor``: each gradient of
    the first run is this many times that of the second, 0 where they differ otherwise. Of two runs with other data
    ``calls`` are those before the step, in each, ``unequal`` are the sizes of parts whose means count alike though all
    of the other loss's numbers do, and ``statistics`` is where BatchNorm takes the mean of its own call.
    ``undivided`` is the number of parts whose means all count whole, ``in_pieces`` are parameters that were left out.
    ``refused`` is the error by which autograd ended the second run before any step; ``seen`` is the Evidence of the
    first run, where it was audited too.
    """

    steps: int = 0
    widest: float = 0.0
    explained: float = TOLERANCE
    optimizer: str = ""
    step: int = 0
    parts: list[Part] = field(default_factory=list)
    parting: Parting | None = None
    factor: float = 0.0
    calls: tuple[Calls, ...] = ()
    unequal: list[float] = field(default_factory=list)
    statistics: Seen | None = None
    undivided: int = 0
    in_pieces: list[str] = field(default_factory=list)
    untold: str = ""
    refused: str = ""
    seen: Evidence | None = None

    @property
    def differs(self) -> bool:
        """Whether there is a difference."""
        return bool(self.parts or self.refused)


@dataclass
class Runs:
    """The two runs; and of one of them, ``near``, another in which rounding has ``moved`` the weights. ``back`` gives
    the line of the first that a line of the second one is. ``other_data``: their operations compute other things, for
    the second is given as one batch what the first has in parts if it is ``whole``, so many times ``repeated``."""

    base: Trace
    other: Trace
    near: Trace
    moved: Trace
    back: Callable[[Line], Line]
    other_data: bool = False
    whole: bool = False
    repeated: int = 1

    def __post_init__(self) -> None:
        for trace in (self.other, self.near, self.moved):
            if trace is not self.base:
                trace.rekey(self.base)

    @property
    def in_pieces(self) -> set[str]:
        """Parameters of which one run holds another piece than the other, as ranks of FSDP do."""
        shapes = self.base.shapes.items()
        return {key for key, shape in shapes if self.other.shapes.get(key, shape) != shape}

    @property
    def least(self) -> float:
        """What is explained in any case."""
        return max(TOLERANCE, LEAST_EPS * max(self.base.coarsest, self.other.coarsest))


def compare(runs: Runs) -> Compared:
    """Compare what each step of two runs was given, up to the first that was given something else."""
    found = Compared(in_pieces=[runs.base.name(key) for key in sorted(runs.in_pieces)])
    for step in runs.base.steps:
        now, near, moved = (counterpart(runs.base, t, step) for t in (runs.other, runs.near, runs.moved))
        if now is None or near is None or moved is None:
            found.untold = f"only {found.steps} steps were made in time" if not found.steps else ""
            break
        given, found.undivided = _of_one(runs, step, now) if runs.repeated > 1 else (now, 0)
        largest = _flowing(runs.base, step)
        noise = distances(near.each, moved.each, largest)
        usual = FACTOR * median(noise.values()) if noise else 0.0
        parts = _parts(runs, step, given, largest, noise, max(runs.least, usual))
        if not parts and (step.each or now.each):
            found.untold = "no parameter that a step is given a gradient of is there, in one shape, in both runs"
            break
        found.widest = max([found.widest, *(p.apart for p in parts)])
        parts = [p for p in parts if p.apart > p.explained]
        if usual >= UNTOLD and not any(p.lost or p.gained for p in parts):
            found.untold = (
                "" if found.steps else "weights that are moved by rounding alone give other gradients as well"
            )
            break
        found.steps = max(found.steps, runs.base.steps_of(step.optimizer).index(step) + 1)
        found.explained = max(found.explained, runs.least, usual)
        if parts:
            _tell(found, runs, step, now, given, parts)
            break
        if given is not now:
            break  # the second run steps by all that it has added up, and has other weights from here on
    return found


OF_ITSELF = "the number of ranks that the program passes on itself, in one process too"
OTHER_DRAWS = "the two runs draw other random numbers"


def _tell(found: Compared, runs: Runs, step: Step, now: Step, given: Step, parts: list[Part]) -> None:
    """Note what is apart at one step, and where; ``given`` is what counts for that of the second run. Only which
    parameters have a gradient at all where the two runs have other random numbers."""
    found.untold = _other_samples(runs, step) if runs.whole else ""
    if found.untold:
        return
    found.step, found.optimizer = found.steps, runs.base.optimizer_name(step.optimizer)
    if draws_elsewhere(runs.base, runs.other) or runs.base.random:  # of parts each draws anew
        found.parts, found.untold = [p for p in parts if p.lost or p.gained], OTHER_DRAWS
        return
    found.factor = _factor(step, given, found.explained)
    ranks = runs.other.ranks
    if ranks > 1 and min(apart(found.factor, n) for n in (ranks, 1 / ranks)) <= found.explained:
        found.factor, found.untold = 0.0, f"all differ by {ranks}, {OF_ITSELF}"
        return
    found.parts = parts
    if runs.other_data:
        found.calls = _calls(runs.base, step), _calls(runs.other, now)
        found.unequal = _unequal(*found.calls) or _unequal(*reversed(found.calls))
        seen_before = (s for s in runs.base.seen.values() if s.at[0] <= step.number)
        found.statistics = next((s for s in seen_before if _OF_BATCH in s.name), None)
        return
    seen, stage, found.untold = _parting(runs, step, {p.name for p in parts})
    if seen is not None:
        module = (s.module for s in runs.base.seen.values() if s.module and s.place == seen.place)
        found.parting = Parting(seen, stage, seen.module or next(module, ""))


def _other_samples(runs: Runs, step: Step) -> str:
    """Why it is not known that the first run's parts, up to this step, are the batch of the other one; empty where it
    is: whatever enters a module is there in both, its parts together or the same for each part."""
    base, now = runs.base, runs.other.data
    keys = sorted(key for key in base.data.keys() | now.keys() if key[0] <= step.number)
    each = {key: [t.data.get(key, []) for t in (base, *base.others)] for key in keys}
    once = {key: [x / runs.repeated for x in sums] for key, sums in now.items()}
    whole = {key for key in keys if _alike(reduce(added, each[key]), once.get(key, []))}
    alone = {key for key in keys if _alike(each[key][0], now.get(key, []))}
    if base.others and keys and all(_alike(one, each[key][0]) for key in keys for one in each[key][1:]):
        return "each rank is given the same data"
    for number, slot in keys:
        if (number, slot) not in whole | alone:
            return f"what enters a module at step {number + 1} (as `{slot}`) is another thing in each"
    return "" if whole - alone else "what enters a module is no larger in the second"


def _of_one(runs: Runs, step: Step, now: Step) -> tuple[Step, int]:
    """What the whole batch gives a step once, where the second run has added it up as often as there are parts: of a
    loss that is a sum, which grows with its batch, and of means that are not divided by the number of the parts. That
    number, where they are not."""
    parts, whole = calls_before(runs.base, step), calls_before(runs.other, now)
    values = [c.value for c in parts]
    if len(parts) != runs.repeated or len(whole) != runs.repeated or None in values or whole[0].value is None:
        return now, 0
    added_up = {key: size.times(runs.repeated) for key, size in whole[0].gained.items() if isinstance(size, Size)}
    if max(distances(now.each, added_up).values(), default=0.0) > runs.least:
        return now, 0  # the program divides, or clips, what it has added up
    undivided = all(c.weight == 1 for c in (*parts, *whole))
    grows = apart(sum(v for v in values if v is not None), whole[0].value) <= runs.least
    if not undivided and not grows:
        return now, 0
    each = {key: size.times(1 / runs.repeated) for key, size in now.each.items() if isinstance(size, Size)}
    return replace(now, each=each), runs.repeated if undivided else 0


def _alike(a: list[float], b: list[float]) -> bool:
    """Whether two sums of numbers are equal but for rounding; of kinds of integers all but one, which fills up."""
    if len(a) != len(b):
        return False
    if len(a) > 4:
        return sum(x != y for x, y in zip(a, b, strict=True)) <= 1
    scales = a[1:2] + a[1:]  # the first sum is small where signs cancel
    return all(abs(x - y) <= TOLERANCE * scale for x, y, scale in zip(a, b, scales, strict=True))


_OF_BATCH = "batch_norm"
"""In the names of operations that take the mean of what they are given in one call."""


def _factor(step: Step, now: Step, explained: float) -> float:
    """By what number all gradients of the one step are those of the other; 0 where they differ otherwise as well."""
    sizes = [(s, now.each[key]) for key, s in step.each.items() if s and now.each.get(key)]
    if not sizes:
        return 0.0
    factor = sum(was for was, _ in sizes) / sum(is_ for _, is_ in sizes)
    times = {key: size.times(factor) for key, size in now.each.items() if isinstance(size, Size)}
    told = abs(factor - 1) > explained and max(distances(step.each, times).values()) <= explained
    return factor if told else 0.0


def _unequal(parts: Calls, whole: Calls) -> list[float]:
    """The sizes of these parts, where their means weighed by their sizes are the other loss, and unweighed are not."""
    sizes = [size for _, size in parts.means]
    if len(set(whole.means)) != 1 or len(set(sizes)) < 2:
        return []
    loss = whole.means[0][0]
    each = [value * factor for factor in (1, parts.count) for value, _ in parts.means]
    for values in (each[: len(sizes)], each[len(sizes) :]):  # or each was divided by their number
        weighed = sum(v * s for v, s in zip(values, sizes, strict=True)) / sum(sizes)
        if apart(weighed, loss) <= TOLERANCE < apart(sum(values) / len(values), loss):
            return sizes
    return []


def _calls(trace: Trace, step: Step) -> Calls:
    """What has run backward since the step before."""
    calls = calls_before(trace, step)
    values = [c.value for c in calls]
    value = None if None in values else sum(v for v in values if v is not None)
    number = trace.steps_of(step.optimizer).index(step)
    for other in trace.others:
        steps = other.steps_of(step.optimizer)
        calls = [*calls, *calls_before(other, steps[number])] if len(steps) > number else []
    means = [(c.value, c.mean_over) for c in calls if c.value is not None and c.mean_over]
    return Calls(len(values), calls[-1].place if calls else ("", 0), value, means if len(means) == len(calls) else [])


def calls_before(trace: Trace, step: Step) -> list[Call]:
    """The backward calls since the step of that optimizer before this one."""
    calls: list[Call] = []
    for entry in trace.order[: trace.order.index(step)]:
        if isinstance(entry, Call) and entry.kind == "backward" and not entry.inner:
            calls.append(entry)
        elif isinstance(entry, Step) and entry.optimizer == step.optimizer:
            calls = []
    return calls


def _flowing(trace: Trace, step: Step) -> float:
    """The largest gradient on its way to this step: what is small beside it may be its rounding alone."""
    seen = (s for s in trace.seen.values() if s.at[0] == step.number)
    sizes = (size for s in seen for stage in ("received", "given") for size in s.sizes.get(stage, ()))
    return max((size for size in sizes if size is not None and isfinite(size)), default=0.0)


def _parts(runs: Runs, step: Step, now: Step, largest: float, noise: dict[str, float], usual: float) -> list[Part]:
    parts = []
    # Parameters that are not there in the other run, or are others: a rank may hold a part of one.
    only_one = set(runs.base.names.keys() ^ runs.other.names.keys())
    only_one |= runs.in_pieces
    for key, gap in distances(step.each, now.each, largest).items():
        if key in only_one:
            continue
        was, is_ = (bool(s.each.get(key)) and gap > usual for s in (step, now))
        explained = max(usual, FACTOR * noise.get(key, 0.0))
        parts.append(Part(runs.base.name(key), gap, explained, was and not is_, is_ and not was))
        if was != is_:
            parts[-1].apart, parts[-1].explained = 1.0, usual
    return parts


# Where two runs part: the first result, else in the order of backward the first gradient, that rounding does not
# explain.


def _parting(runs: Runs, step: Step, differing: set[str]) -> tuple[Seen | None, str, str]:
    """What is seen there, the stage at which it differs, and why that tells nothing, if so."""
    back = _same if runs.near is runs.base else runs.back
    traces = ((runs.other, runs.back), (runs.near, back), (runs.moved, back))
    others = [{_key(s, line): s for s in trace.seen.values()} for trace, line in traces]
    last: Seen | None = None
    for seen, stage in _in_order([s for s in runs.base.seen.values() if s.at[0] <= step.number]):
        now, near, moved = (other.get(_key(seen, _same)) for other in others)
        if now is None or near is None or moved is None:
            continue
        sizes = (s.sizes.get(stage, []) for s in (seen, now, near, moved))
        # Of a node's gradients a small one may be the rounding of a large one; of its results nothing like it is known.
        told = [
            v for v in (*seen.sizes.get("received", ()), *seen.sizes.get("given", ())) if v is not None and isfinite(v)
        ]
        largest = max(told, default=0.0) if stage != "out" else 0.0
        apart_here = _unexplained(runs.least, largest / 100, zip_longest(*sizes))
        if apart_here and stage == "out" and seen.drawn != now.drawn:
            return seen, stage, OTHER_DRAWS
        if apart_here and stage == "received" and last is not None and last.keys:
            return last, "given", ""  # what it gave is what is received here
        if apart_here or (stage == "given" and {runs.base.name(key) for key in seen.keys} & differing):
            return seen, stage, ""
        last = seen if stage == "given" else last
    regions = {s.name: s for s in runs.base.seen.values() if s.drawn and s.at[0] == step.number}
    return (next(iter(regions.values())), "within", "") if len(regions) == 1 else (None, "", "")


def _same(line: Line) -> Line:
    return line


def _key(seen: Seen, back: Callable[[Line], Line]) -> tuple[object, ...]:
    return (seen.name, *back((seen.place[0], seen.place[1])), seen.at, "out" in seen.sizes)


def _in_order(seen: list[Seen]) -> Iterator[tuple[Seen, str]]:
    """What was seen, in order of time: of each step the results, then the gradients. A region was left in the backward
    pass in the opposite order to that in which it was entered; a node of the graph is seen when it has run."""
    for _, group in groupby(seen, key=lambda s: s.at[0]):
        of_step = list(group)
        yield from ((s, "out") for s in of_step if "out" in s.sizes)
        backward = [s for s in of_step if "received" in s.sizes or "given" in s.sizes]
        for s in reversed(backward) if any("out" in s.sizes for s in backward) else backward:
            yield s, "received"
            yield s, "given"


def _unexplained(least: float, scale: float, rows: Iterator[tuple[Size | None, ...]]) -> bool:
    for was, now, near, moved in rows:
        noise = apart(near or 0.0, moved or 0.0, scale)
        if (was or now) and apart(was or 0.0, now or 0.0, scale) > max(least, FACTOR * noise):
            return True
    return False
