"""Gradient against loss: what the loss does when parameters move, beside what the backward calls gave them.

A generator asks for forks and is sent what each has told, so that the same lines read as one measurement.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphdoc.capture.whatif.cut_places import Dying
from graphdoc.capture.whatif.moves import FAR, UTMOST, across, along, anywhere, is_matrix, size_of, slope_by, steps_for
from graphdoc.capture.whatif.window import Move, Target

if TYPE_CHECKING:
    from graphdoc.capture.whatif import WhatIf

AGREES, MISSING, ZEROS, ANOTHER, INDEPENDENT, NOISE = "agrees", "missing", "zero", "another", "independent", "noise"
CANCELS = "cancels"
"""What is given is what rounding leaves of gradients that cancel."""
WRITTEN = "the program writes to the parameters between the steps"
CLEARED = "what the backward calls give them is cleared before the step"
ASSIGNED = "the program computes what is in `.grad` by itself"
CLOSE = 0.05
"""How far a measured slope and that of the gradient may lie apart and be called the same: kinks and curves."""
LACKS = 0.02
"""The part of a gradient's size from which on a slope across it counts."""
CLEAR = 20.0
"""A difference counts from so many roundings of the loss on."""
TINY = (1e-3, 2e-3)
"""Parts of the smallest step, by which nothing but rounding moves: what a loss of large terms that cancel does then."""
NEAR, UNRELATED = (1e-3, 3e-3), 0.2
"""Steps after which a gradient is nearly the same, but for this part of it."""
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
    jumps: bool = False
    """The loss has no slope there: it depends on them, but only in steps."""
    across: bool = False
    """Measured across the gradient, along which the two agree."""
    taken: float = 0.0
    """Of a patched program: the slope with only that held which the program as it is written holds. The patch takes the
    rest of it away from them; 0 where it takes nothing."""


@dataclass
class Result:
    """What was measured between two steps; ``why`` says why nothing was, if so. ``alone``: the gradients of every call
    go to parameters of other optimizers. ``kept`` is what left the graph meanwhile, ``ends`` where the gradient of what
    is given none ends, or why that is not known."""

    answers: list[Answer] = field(default_factory=list)
    why: str = ""
    alone: bool = False
    base: dict[str, Any] | None = None
    kept: dict[Any, Any] = field(default_factory=dict)
    ends: Any = "nothing is missing"
    left: Any = None
    """Where the gradients cancel of which rounding alone is left."""


def measure(probe: WhatIf, target: Target, owners: list[list[int]]) -> Plan:
    """Ask for the forks that answer for one optimizer.

    Args:
        owners: the positions of its parameters, by the module that they belong to.
    """
    base = yield Move(first=True, watch=probe.look.holding(None))
    if isinstance(base, str):
        return Result(why=base)
    calls = base["calls"]
    if not calls:
        return Result(why="no backward call is made between its steps")
    if not all(_finite(c["value"]) for c in calls):
        return Result(why="a loss is not finite")
    target.padded = base["padded"]
    others = {*base["written"], *base["assigned"]}
    owners = [sorted(set(o) - others) for o in owners]
    measured = {i for o in owners for i in o}
    if not measured:
        return Result(why=ASSIGNED if base["assigned"] else WRITTEN)
    used = [i for i, c in enumerate(calls) if not c["left_out"]]
    if not used:
        return Result(why=CLEARED)
    target.left_out = {(c["file"], c["line"]) for c in calls if c["left_out"]}
    fed = [i for i, c in enumerate(calls) if c["some"]]
    had = [i for i, c in enumerate(calls) if c["had"]]
    told = Result(alone=not had, base=base, kept=dict(base.get("watch", ())))
    of_interest = fed or had or used
    moved = {i for c in calls for i in c["some"]}
    silent, moved = measured - moved, measured & moved
    look = _Look(probe, target, base, told)
    if silent:
        yield from look.silent(owners, of_interest, silent)
    if moved and not told.why:
        moved -= yield from look.cancelling(owners, of_interest, moved)
    if moved and not told.why:
        yield from look.moved(owners, of_interest, moved)
    return told


class _Look:
    """One optimizer between two of its steps. Each fork moves along one direction, to one side: how much of the change
    of the loss is its curve is known from the gradients at both ends."""

    def __init__(self, probe: WhatIf, target: Target, base: Any, told: Result) -> None:
        self._probe = probe
        self._target = target
        self._base = base
        self._told = told
        self._steps = steps_for(target.parameters)

    def silent(self, owners: list[list[int]], calls: list[int], silent: set[int]) -> Generator[Move, Any, None]:
        """Parameters that no call has given anything to: does a loss depend on them all the same?"""
        told, far, first = self._told, 0.0, None
        whole = anywhere(self._target.torch, self._target.parameters, silent)
        for far in (max(self._steps), *FAR, UTMOST):
            moved = yield from self._slope(whole, far)
            first = first if moved is None and far == UTMOST else moved
            if first is None or any(first[i][0] != 0.0 for i in calls):
                break
        if first is None or all(first[i][0] == 0.0 for i in calls):
            told.answers.append(Answer(sorted(silent), INDEPENDENT if first is not None else NOISE))
            return
        again = yield Move(watch=Dying(self._target, silent))
        same = _values(again, self._base)
        if same is None or any(same[i] != self._base["calls"][i]["value"] for i in calls):
            told.why = "the same step gives another loss when it is run again, so no difference can be measured"
            return
        told.ends = again["watch"]
        mine = [chosen for o in owners if (chosen := silent.intersection(o))][:MOST_OWNERS]
        for chosen in mine:
            directions = [d if i in chosen else None for i, d in enumerate(whole)]
            slopes = {far: first if chosen == silent else (yield from self._slope(directions, far))}
            yield from self._one_by_one(chosen, directions, slopes, calls)

    def _one_by_one(
        self, chosen: set[int], directions: list[Any], by_step: dict[float, Any], calls: list[int]
    ) -> Generator[Move, Any, None]:
        """The answers for one module, of which the slopes by the widest step are known."""
        first = next(iter(by_step.values()))
        if first is None or any(first[i][0] for i in calls):
            # The last ones are for a loss that moves in steps.
            for step in [s for s in (*self._steps[:2], *FAR) if s not in by_step]:
                by_step[step] = yield from self._slope(directions, step)
                if all(_steady([*by_step.values()], i) is not None for i in calls):
                    break
        slopes, least = [*by_step.values()], {}
        ends = self._told.ends if isinstance(self._told.ends, dict) else {"ends": ()}
        opposite = any(e.get("equal") for e in ends["ends"])  # says by itself that a gradient is lost
        if not opposite and any(_clear(s, i) for s in slopes for i in calls):
            for step in (min(self._steps) * part for part in TINY):
                least[step] = yield from self._slope(directions, step)
        known = {i for c in self._base["calls"] for i in c["had"]}
        for i in calls:
            call = self._base["calls"][i]
            answer = Answer(sorted(chosen), NOISE, file=call["file"], line=call["line"])
            self._told.answers.append(answer)
            steady = _steady(slopes, i)
            clear = [s[i][0] for _, s in sorted(by_step.items()) if _clear(s, i)]
            # A gradient that is there after each little move is that of the loss: it is zero where the loss turns.
            if all(s is not None and abs(s[i][2] - s[i][0]) > s[i][1] for s in slopes):
                answer.answer = AGREES
            elif clear and _widest(by_step, i) > CLEAR * _widest(least, i):
                answer.slope = clear[0] if steady is None else steady
                answer.jumps = _jumps(by_step, i)
                answer.answer = ZEROS if chosen & known else MISSING
            elif all(s is not None and s[i][0] == 0.0 for s in slopes):
                answer.answer = INDEPENDENT

    def cancelling(self, owners: list[list[int]], calls: list[int], moved: set[int]) -> Generator[Move, Any, set[int]]:
        """Those of which no loss depends smoothly, by modules, and that are given what rounding leaves: no move brings
        a gradient, and after a little one it is another one, where a small gradient is nearly the same."""
        parameters, found, jumps = self._target.parameters, set[int](), False
        row = [sum(parts) for parts in zip(*(self._target.given.read(i) for i in calls), strict=True)]
        least = CLEAR * EPS * max(self._base["calls"][i]["size"] for i in calls)
        for chosen in [chosen for o in owners if (chosen := moved.intersection(o))][:MOST_OWNERS]:
            given, other = along(parameters, row, chosen), anywhere(self._target.torch, parameters, chosen)
            first = slope_by(row, given)
            if first > least or not any(is_matrix(parameters[i]) for i in chosen):
                continue
            slopes, after = list[Any](), list[float]()
            for directions, step in ((given, NEAR[0]), (given, NEAR[1]), (given, max(FAR)), (other, max(FAR))):
                slopes.append((yield from self._slope(directions, step)))
                after.append(sum(2 * (s[2] - s[0]) for i in calls if (s := slopes[-1][i])) if slopes[-1] else least + 1)
                if not abs(after[-1]) <= least:  # nor is what is no number
                    break
            else:
                if any(abs(slope - first) > UNRELATED * first for slope in after[: len(NEAR)]):
                    found |= chosen
                    jumps |= any(abs(s[i][2]) > CLEAR * s[i][1] for s in slopes for i in calls)
        if found:
            self._told.answers.append(Answer(sorted(found), CANCELS, jumps=jumps))
            again = yield Move(watch=Dying(self._target, found, CLEAR * EPS))
            self._told.left = again["watch"] if isinstance(again, dict) else again
        return found

    def moved(self, owners: list[list[int]], calls: list[int], moved: set[int]) -> Generator[Move, Any, None]:
        """Parameters that were given a gradient: is it that of the loss? All of them at once first; then with what
        leaves the graph held, which is what a gradient is defined by; then module by module."""
        parameters, kept = self._target.parameters, self._told.kept
        rows = {i: [g.clone() for g in self._target.given.read(i)] for i in calls}
        whole = along(parameters, [sum(parts) for parts in zip(*rows.values(), strict=True)], moved)
        every, cut = sorted(moved), self._probe.answers.needs_cuts(self._target)
        open_ = calls
        if kept and not cut:  # one look is enough where a cut may be the reason
            expected = {i: slope_by(rows[i], whole) for i in calls}
            open_, _ = yield from self._agreeing(expected, whole, every, False, self._steps[:1])
        still = yield from self._compare(rows, open_, whole, every)
        if not self._probe.trial and (cut or not kept or not open_):  # else at the next step: it is dear here
            yield from self._across(rows, [i for i in calls if i not in still], moved)
        by_patch = self._probe.patched.places(self._probe.look.found) if kept and open_ else ()
        if by_patch:
            yield from self._taken(rows, whole, set(by_patch))
        if not still:
            return
        several = [chosen for o in owners if (chosen := moved.intersection(o))][:MOST_OWNERS]
        if len(several) == 1:
            return
        self._told.answers = [a for a in self._told.answers if a.parameters != every or a.answer == AGREES or a.across]
        for chosen in several:
            for i in still:
                yield from self._compare(rows, [i], along(parameters, rows[i], chosen), sorted(chosen))

    def _compare(
        self, rows: dict[int, list[Any]], calls: list[int], directions: list[Any], chosen: list[int]
    ) -> Generator[Move, Any, list[int]]:
        """Measure along a direction; gives back the calls at which the gradient is not seen to be that of the loss."""
        if not calls or all(d is None for d in directions):
            return []
        held, expected = bool(self._told.kept), {i: slope_by(rows[i], directions) for i in calls}
        open_, slopes = yield from self._agreeing(expected, directions, chosen, held, self._steps[:3])
        for i in open_:
            steady = _steady(slopes, i, expected[i])
            flat = all(s is not None and abs(s[i][2]) <= s[i][1] for s in slopes)
            kind = ANOTHER if steady is not None or flat else NOISE
            self._answer(i, kind, chosen, 0.0 if flat else steady or 0.0, expected[i], held)
        return open_

    def _across(self, rows: dict[int, list[Any]], calls: list[int], moved: set[int]) -> Generator[Move, Any, None]:
        """Whether these gradients, which are those of the loss along themselves, lack a term: one at an angle reads
        there as the square of its cosine, and shows across it. Three steps have to agree on it, one of them back."""
        parameters, held = self._target.parameters, bool(self._told.kept)
        row = [sum(parts) for parts in zip(*rows.values(), strict=True)]
        whole = across(self._target.torch, parameters, row, moved)
        expected = {i: slope_by(rows[i], whole) for i in calls}
        lacks: dict[int, list[float]] = {i: [] for i in calls}
        first, other = self._steps[0], max(s for s in self._steps if s != self._steps[0])
        for step in (first, other, -first):
            watch = self._probe.look.holding(self._told.kept) if held else None
            slopes = (yield from self._slope(whole, step, watch, expected)) if lacks else None
            if slopes is None:
                return
            for i in list(lacks):
                slope, rounding, _ = slopes[i]
                lacks[i].append(slope - expected[i])
                least = LACKS * _usual_slope(parameters, rows[i], moved) + CLEAR * abs(rounding)
                if abs(lacks[i][-1]) <= least or not _together(lacks[i]):
                    del lacks[i]
        for i, found in lacks.items():
            place = self._base["calls"][i]["line"]
            self._told.answers = [a for a in self._told.answers if a.line != place or a.answer != AGREES]
            self._answer(i, ANOTHER, sorted(moved), expected[i] + found[0], expected[i], held)
            self._told.answers[-1].across = True

    def _agreeing(
        self, expected: dict[int, float], directions: list[Any], chosen: list[int], held: bool, steps: tuple[float, ...]
    ) -> Generator[Move, Any, tuple[list[int], list[Any]]]:
        """Move by one step after the other as long as some slope is not that of the gradient, and is not known to be
        another one; gives back the calls of which none was, and all slopes."""
        open_, slopes = list(expected), list[Any]()
        for step in steps:
            watch = self._probe.look.holding(self._told.kept) if held else None
            slopes.append((yield from self._slope(directions, step, watch, expected)))
            for i in list(open_) if slopes[-1] is not None else ():
                slope, rounding, _ = slopes[-1][i]
                if _alike(slope, expected[i], rounding):
                    open_.remove(i)
                    self._answer(i, AGREES, chosen, slope, expected[i], held)
            if all(_steady(slopes, i, expected[i]) is not None for i in open_):
                break
        return open_, slopes

    def _taken(
        self, rows: dict[int, list[Any]], directions: list[Any], by_patch: set[Any]
    ) -> Generator[Move, Any, None]:
        """Whether a patch takes a part of what these parameters do to their losses out of their gradients: by the same
        step the slope is another one when its cuts are held too."""
        expected = {i: slope_by(row, directions) for i, row in rows.items()}
        kept, step, look = self._told.kept, self._steps[0], self._probe.look
        with_cuts = yield from self._slope(directions, step, look.holding(kept), expected)
        as_written = look.holding(kept, set(look.found) - by_patch)
        slopes = yield from self._slope(directions, step, as_written, expected)
        for answer in self._told.answers if slopes is not None and with_cuts is not None else ():
            at = next((i for i in expected if self._base["calls"][i]["line"] == answer.line), None)
            if at is not None and answer.held and not _alike(slopes[at][0], with_cuts[at][0], slopes[at][1]):
                answer.taken = slopes[at][0]

    def _answer(self, call: int, kind: str, chosen: list[int], slope: float, expected: float, held: bool) -> None:
        at = self._base["calls"][call]
        self._told.answers.append(Answer(chosen, kind, slope, expected, at["file"], at["line"], held))

    def _slope(
        self, directions: list[Any], step: float, watch: Any = None, expected: dict[int, float] | None = None
    ) -> Generator[Move, Any, Any]:
        """Of each call the slope, how much of it may be rounding, and how much the loss has risen by itself; None where
        the fork has told nothing that compares."""
        told = yield Move(step, directions, watch=watch)
        values = _values(told, self._base)
        if values is None:
            return None
        found = []
        for i, (value, call) in enumerate(zip(values, self._base["calls"], strict=True)):
            curve = (told["calls"][i]["along"] - (expected or {}).get(i, 0.0)) / 2
            rise = (value - call["value"]) / step
            found.append((rise - curve, EPS * call["size"] / step, rise))
        return found


def _usual_slope(parameters: list[Any], given: list[Any], chosen: set[int]) -> float:
    """How large a slope in a random direction is by such a gradient: the root of its mean square."""
    return float(sum((size_of(parameters[i]) * float(given[i].double().norm())) ** 2 for i in chosen) ** 0.5)


def _alike(slope: float, other: float, rounding: float) -> bool:
    return abs(slope - other) <= CLOSE * max(abs(slope), abs(other)) + CLEAR * rounding


def _clear(slopes: Any, call: int) -> bool:
    """Whether a loss has moved clear of rounding; what is rounded to whole steps moves unevenly."""
    return slopes is not None and abs(slopes[call][0]) > CLEAR * slopes[call][1]


def _jumps(by_step: dict[float, Any], call: int) -> bool:
    """Whether a loss moves in steps. Below the smallest move that shows, it stays where a slope would show too; or the
    smallest of all moves it nearly as far as the next one. What is curved, or rounded away, does neither."""
    known = [s[call][:2] for _, s in sorted(by_step.items()) if s is not None]
    first = next((n for n, (slope, rounding) in enumerate(known) if abs(slope) > CLEAR * rounding), 0)
    slope = known[first][0]
    if first:
        return any(abs(other - slope) > 0.5 * abs(slope) + CLEAR * rounding for other, rounding in known[:first])
    return any(abs(slope) > 2 * abs(other) for other, _ in known[1:2])


def _widest(by_step: dict[float, Any], call: int) -> float:
    """How far a loss has moved, at most."""
    return max((abs(s[call][2]) * step for step, s in by_step.items() if s is not None), default=0.0)


def _steady(slopes: list[Any], call: int, other: float = 0.0) -> float | None:
    """The slope that two step sizes agree on, clear of rounding.

    Args:
        other: the slope that it is not. The two lie nearer to each other than to it: a loss that jumps, as behind a
            step along the gradient of a ReLU network, has a slope of its own for each size.
    """
    good: list[float] = [s[call][0] for s in slopes if _clear(s, call)]
    for n, first in enumerate(good):
        for second in good[n + 1 :]:
            apart, away = abs(first - second), min(abs(first - other), abs(second - other))
            if apart <= 0.2 * max(abs(first), abs(second)) and apart <= 0.5 * away:
                return second
    return None


def _together(slopes: list[float]) -> bool:
    """Whether these are one slope, but for its curve; what jumps or is rounded has another one for each step."""
    return max(slopes) - min(slopes) <= 0.2 * max(abs(s) for s in slopes)


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
