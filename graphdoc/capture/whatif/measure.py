"""Gradient against loss: what the loss does when parameters move, beside what the backward calls gave them.

A generator asks for forks and is sent what each has told, so that the same lines read as one measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from typing import Any

from graphdoc.capture.whatif.moves import along, anywhere, slope_by, steps_for
from graphdoc.capture.whatif.window import Move, Target

AGREES, MISSING, ZEROS, ANOTHER, INDEPENDENT, NOISE = "agrees", "missing", "zero", "another", "independent", "noise"
CLOSE = 0.05
"""How far a measured slope and that of the gradient may lie apart and be called the same: kinks and curves."""
CLEAR = 20.0
"""A difference counts from so many roundings of the loss on."""
FAR = (3e-2, 1e-1)
"""Steps by which what is rounded to whole numbers moves as well."""
MOST_OWNERS = 10
"""Modules of one optimizer that are looked at one by one."""
EPS = 1.2e-7
"""The rounding of a loss, which is hardly ever computed in double precision."""

Plan = Generator[Move, Any, "Result"]


@dataclass
class Answer:
    """Of the parameters with these positions in the optimizer: what was measured at one backward call."""

    parameters: list[int]
    answer: str
    slope: float = 0.0
    gradient: float = 0.0
    file: str = ""
    line: int = 0
    held: bool = False
    """What leaves the graph was held meanwhile: the author's own cuts are no difference."""

    def told(self) -> dict[str, Any]:
        """As it is kept in a sign."""
        return asdict(self)


@dataclass
class Result:
    """What was measured between two steps; ``why`` says why nothing was, if so. ``alone``: the gradients of every call
    go to parameters of other optimizers."""

    answers: list[Answer] = field(default_factory=list)
    why: str = ""
    alone: bool = False
    base: dict[str, Any] | None = None


Holding = Callable[[Any], Any]
"""Makes a watch that keeps what leaves the graph (of None), or that holds it at what was kept."""


def measure(target: Target, owners: list[list[int]], holding: Holding) -> Plan:
    """Ask for the forks that answer for one optimizer.

    Args:
        owners: the positions of its parameters, by the module that they belong to.
    """
    base = yield Move(first=True)
    if isinstance(base, str):
        return Result(why=base)
    calls = base["calls"]
    if not calls:
        return Result(why="no backward call is made between its steps")
    if not all(_finite(c["value"]) for c in calls):
        return Result(why="a loss is not finite")
    owners = [sorted(set(o) - set(base["written"])) for o in owners]
    measured = {i for o in owners for i in o}
    if not measured:
        return Result(why="the program writes to the parameters between the steps")
    fed = [i for i, c in enumerate(calls) if c["some"]]
    had = [i for i, c in enumerate(calls) if c["had"]]
    told = Result(alone=not had, base=base)
    of_interest = fed or had or list(range(len(calls)))
    moved = {i for c in calls for i in c["some"]}
    silent, moved = measured - moved, measured & moved
    if silent:
        yield from _silent(target, owners, base, of_interest, silent, told)
        if told.why:
            return told
    if moved:
        yield from _moved(target, owners, base, of_interest, moved, told, holding)
    return told


def _silent(
    target: Target, owners: list[list[int]], base: Any, calls: list[int], silent: set[int], told: Result
) -> Generator[Move, Any, None]:
    """Parameters that no call has given anything to: does a loss depend on them all the same?"""
    parameters = target.parameters
    step = max(steps_for(parameters))
    far = yield Move(step, anywhere(target.torch, parameters, silent, 1))
    values = _values(far, base)
    if values is None or all(values[i] == base["calls"][i]["value"] for i in calls):
        told.answers.append(Answer(sorted(silent), INDEPENDENT if values is not None else NOISE))
        return
    again = yield Move()
    same = _values(again, base)
    if same is None or any(same[i] != base["calls"][i]["value"] for i in calls):
        told.why = "the same step gives another loss when it is run again, so no difference can be measured"
        return
    known = {i for c in base["calls"] for i in c["had"]}
    for owner in [o for o in owners if silent.intersection(o)][:MOST_OWNERS]:
        chosen = silent.intersection(owner)
        directions = anywhere(target.torch, parameters, chosen, 2)
        slopes = yield from _slopes(target, base, directions, calls)
        if any(_steady(slopes, i) is None for i in calls):
            for far in FAR:  # a loss that moves in steps
                slopes.append((yield from _slope(base, directions, far)))
        for i in calls:
            call = base["calls"][i]
            answer = Answer(sorted(chosen), NOISE, file=call["file"], line=call["line"])
            told.answers.append(answer)
            steady = _steady(slopes, i)
            if steady is not None or all(_clear(s, i) for s in slopes[-2:]):
                answer.slope = steady if steady is not None else slopes[-1][i][0]
                answer.answer = ZEROS if chosen & known else MISSING
            elif all(s[i][0] == 0.0 for s in slopes if s is not None):
                answer.answer = INDEPENDENT


def _moved(
    target: Target,
    owners: list[list[int]],
    base: Any,
    calls: list[int],
    moved: set[int],
    told: Result,
    holding: Holding,
) -> Generator[Move, Any, None]:
    """Parameters that were given a gradient: is it that of the loss? All of them at once first; then with what leaves
    the graph held, which is what a gradient is defined by; then module by module."""
    rows = {i: [g.clone() for g in target.given.read(i)] for i in calls}
    total = [sum(parts) for parts in zip(*rows.values(), strict=True)]
    whole = along(target.parameters, total, moved)
    wrong = yield from _compare(target, base, rows, calls, whole, sorted(moved), told, None)
    if not wrong:
        return
    first = yield Move(watch=holding(None))
    kept = dict(first["watch"]) if not isinstance(first, str) else {}
    plain = {a.line: a for a in told.answers if a.parameters == sorted(moved) and a.answer != AGREES}
    told.answers = [a for a in told.answers if a not in plain.values()]
    still = wrong
    if kept:
        still = yield from _compare(target, base, rows, wrong, whole, sorted(moved), told, lambda: holding(kept))
    if not still:
        return
    told.answers = [a for a in told.answers if a.parameters != sorted(moved) or a.answer == AGREES]
    for owner in [o for o in owners if moved.intersection(o)][:MOST_OWNERS]:
        chosen = moved.intersection(owner)
        for i in still:
            directions = along(target.parameters, rows[i], chosen)
            watch = (lambda: holding(kept)) if kept else None
            yield from _compare(target, base, rows, [i], directions, sorted(chosen), told, watch)


def _compare(
    target: Target,
    base: Any,
    rows: dict[int, list[Any]],
    calls: list[int],
    directions: list[Any],
    chosen: list[int],
    told: Result,
    watch: Callable[[], Any] | None,
) -> Generator[Move, Any, list[int]]:
    """Measure along a direction; gives back the calls at which the gradient is not seen to be that of the loss."""
    if all(d is None for d in directions):
        return []
    open_ = list(calls)
    slopes: list[Any] = []
    expected = {i: slope_by(rows[i], directions) for i in calls}

    def answer(i: int, kind: str, slope: float) -> None:
        call = base["calls"][i]
        told.answers.append(Answer(chosen, kind, slope, expected[i], call["file"], call["line"], watch is not None))

    for step in steps_for(target.parameters)[:3]:
        slopes.append((yield from _slope(base, directions, step, watch)))
        for i in list(open_):
            if slopes[-1] is None:
                continue
            slope, rounding = slopes[-1][i]
            if abs(slope - expected[i]) <= CLOSE * max(abs(slope), abs(expected[i])) + CLEAR * rounding:
                open_.remove(i)
                answer(i, AGREES, slope)
        if not open_:
            return []
    for i in open_:
        steady = _steady(slopes, i)
        flat = steady is None and all(s is not None and abs(s[i][0]) <= s[i][1] for s in slopes)
        answer(i, ANOTHER if steady is not None or flat else NOISE, steady or 0.0)
    return open_


def _slopes(target: Target, base: Any, directions: list[Any], calls: list[int]) -> Generator[Move, Any, list[Any]]:
    """The slopes by steps of two sizes; None where a fork has told nothing that compares."""
    slopes = []
    for step in steps_for(target.parameters)[:3]:
        slopes.append((yield from _slope(base, directions, step)))
        if len(slopes) > 1 and all(_steady(slopes, i) is not None for i in calls):
            break
    return slopes


def _slope(
    base: Any, directions: list[Any], step: float, watch: Callable[[], Any] | None = None
) -> Generator[Move, Any, Any]:
    """By two sided difference: of each call the slope, and how much of it may be rounding."""
    up = _values((yield Move(step, directions, watch=watch() if watch else None)), base)
    down = _values((yield Move(-step, directions, watch=watch() if watch else None)), base)
    if up is None or down is None:
        return None
    rounding = [EPS * c["size"] / step for c in base["calls"]]
    return [((u - d) / (2 * step), r) for u, d, r in zip(up, down, rounding, strict=True)]


def _clear(slopes: Any, call: int) -> bool:
    """Whether a loss has moved clear of rounding; what is rounded to whole steps moves unevenly."""
    return slopes is not None and abs(slopes[call][0]) > CLEAR * slopes[call][1]


def _steady(slopes: list[list[tuple[float, float]] | None], call: int) -> float | None:
    """The slope that two step sizes agree on, clear of rounding."""
    good = [s[call] for s in slopes if s is not None and abs(s[call][0]) > CLEAR * s[call][1]]
    for n, (first, _) in enumerate(good):
        for second, _ in good[n + 1 :]:
            if abs(first - second) <= 0.2 * max(abs(first), abs(second)):
                return second
    return None


def _values(told: Any, base: Any) -> list[float] | None:
    """The value of each call of a fork, where it has made the calls of the first one, weighted as there."""
    if isinstance(told, str):
        return None
    calls, first = told["calls"], base["calls"]
    if [(c["file"], c["line"], c["times"]) for c in calls] != [(c["file"], c["line"], c["times"]) for c in first]:
        return None
    if any(c["weights"] != f["weights"] for c, f in zip(calls, first, strict=True)):
        return None  # what the roots are weighted by depends on them as well
    values = [float(c["value"]) for c in calls]
    return values if all(_finite(v) for v in values) else None


def _finite(value: float) -> bool:
    return value - value == 0.0
