"""Judges a patched run against the original: finite, the same first call, the same gradients of its own losses."""

from __future__ import annotations

import math
from functools import cache, partial
from math import isfinite, isnan
from typing import Any

from graphdoc.evidence import Evidence
from graphdoc.program.reuse import Reuse
from graphdoc.story.wording import folded, one_line
from graphdoc.verify import measures, usage
from graphdoc.verify.compared import (
    TOLERANCE,
    Baseline,
    Outcome,
    Verdict,
    fails_otherwise,
    listed,
    percent,
    praise,
    receive,
    then_fails,
    told_lost,
    unmeasured,
)
from graphdoc.verify.traces import Call, Line, Step, Trace, apart, difference

# Whether the losses and gradients of a patched run are finite wherever they are to be.


def not_finite(base: Trace, patched: Trace, mended: bool) -> str:
    """What of a patched run is not finite and is to be, as a sentence; empty where all is.

    A gradient counts by which an optimizer steps, and a loss behind which one does: what a GradScaler, or the program
    itself, leaves out has been dealt with. Without optimizers every call counts. Unless the patch is to have ``mended``
    such values, what the unpatched program has at the same call or step as well is the program's own.
    """
    waiting: dict[Line, Call] = {}
    for entry in patched.order:
        if isinstance(entry, Step):
            told = "" if entry.left_out else _of_loss(waiting) or _of_step(base, patched, entry, mended)
        elif entry.inner:
            continue
        else:
            same = None if mended else measures.same_call(patched, base, entry)
            bad = not _is_finite(entry) and (same is None or _is_finite(same))
            waiting.pop(entry.place, None)
            if bad:
                waiting[entry.place] = entry
            told = "" if patched.optimizers else _of_loss(waiting)
        if told:
            return told
    return ""


def changed_before(base: Trace, patched: Trace, tolerance: float) -> list[str]:
    """A doubt if a step is by other gradients than in the program as it is written, although nothing of that was nan or
    inf up to there: a bound is to leave alone what was finite.
    """
    for entry in base.order:
        if isinstance(entry, Call):
            if not _is_finite(entry):
                break
            continue
        other = measures.counterpart(base, patched, entry)
        if other is None or not all(map(isfinite, entry.each.values())):
            break
        gap = difference(entry.each, other.each)
        if gap > tolerance:
            name, number = base.optimizer_name(entry.optimizer), base.steps_of(entry.optimizer).index(entry) + 1
            return [
                f"step {number} of {name}, where all was finite, is by other gradients than before (by {percent(gap)})"
            ]
    return []


def _while_finite(base: Trace) -> Trace:
    """The original up to its first loss that is not finite: a gradient that comes from nan is one that nobody meant.
    All of it where an optimizer had not stepped by then."""
    end = next((e.index for e in base.order if isinstance(e, Call) and not _is_finite(e)), None)
    sound = base if end is None else base.until(end - 1)
    return sound if {s.optimizer for s in sound.steps} == {s.optimizer for s in base.steps} else base


def _is_finite(call: Call) -> bool:
    """Whether what a call starts from is, and what it gives to leaves of no optimizer."""
    return all(size is None or isfinite(size) for size in (call.value, call.loose_sum, *call.sums))


def _of_loss(calls: dict[Line, Call]) -> str:
    for place, call in calls.items():
        if call.value is not None and not isfinite(call.value):
            return f"the loss at {measures.told_place(place)} is {'nan' if isnan(call.value) else 'inf'}"
        return f"the gradients of the call at {measures.told_place(place)} are not finite"
    return ""


def _of_step(base: Trace, patched: Trace, step: Step, mended: bool) -> str:
    before = None if mended else measures.counterpart(patched, base, step)
    own = {k for k, size in before.each.items() if not isfinite(size)} if before is not None else set()
    bad = [k for k, size in step.each.items() if not isfinite(size) and k not in own]
    if not bad:
        return ""
    name, whose = patched.optimizer_name(step.optimizer), measures.names_of(patched, bad)
    return f"{name} steps by gradients of {whose} that are not finite"


# Whether the first backward call of a run, which had worked, still gives the same gradients.


def changed_first_call(
    base: Trace, patched: Trace, failing: int, tolerance: float, once: frozenset[str] = frozenset()
) -> list[str]:
    """A doubt if the very first backward, which worked and can have used nothing old, gives other gradients now. Where
    a gradient was nan it had not worked.

    Where gradient vanishes from a parameter altogether, ``stopped_flows`` speaks; where the patch has taken a backward
    call away (merged it with another, be it from the same place), the first one is meant to be another. What was
    computed ``once`` for all calls (names of the parameters behind it) can send gradient through the first one alone:
    that this ends is what a constant means, as long as the call gives them gradient in another way.
    """
    if {c.place for c in base.backwards} - {c.place for c in patched.backwards}:
        return []
    first = next(iter(base.backwards), None)
    now = _same_loss(base, patched, first, failing, tolerance) if first is not None else None
    if first is None or now is None or first.index >= failing >= 0 or first.place != now.place:
        return []
    gained = _finite(first)
    least = max(gained.values(), default=0.0) / 100
    changed = [
        k
        for k, gain in gained.items()
        if apart(gain, now.gained.get(k, gain), least) > tolerance and not (base.name(k) in once and now.gained.get(k))
    ]
    if not changed or _merged(base, patched, first.place, changed):
        return []
    where, names = measures.told_place(first.place), measures.names_of(base, changed)
    return [f"the first backward, at {where}, worked before and now gives other gradients to {names}"]


def _merged(base: Trace, patched: Trace, place: Line, keys: list[str]) -> bool:
    """Whether several calls from this place added up their gradients for one step, and fewer do now: one for all, or
    one for those of each part of a batch."""
    owners = {o for key in keys for o in base.holders(key)}

    def gathered(trace: Trace) -> int:
        end = next((s.index for s in trace.steps if s.optimizer in owners), None)
        return sum(1 for c in trace.calls if c.place == place and (end is None or c.index < end))

    mine, its = gathered(base), gathered(patched)
    return mine > its > 0 and mine % its == 0


def _same_loss(base: Trace, patched: Trace, first: Call, failing: int, tolerance: float) -> Call | None:
    """The patched run's first call, or where that has another loss and a later one from the same line this very one,
    the latter: a helper that differentiates every loss may have been given them in another order."""
    worked = sum(1 for c in base.backwards if c.place == first.place and c.index < failing)
    calls = list(patched.backwards)[: worked + 1]
    same = [c for c in calls if c.place == first.place and first.value is not None and c.value is not None]
    values = [c for c in same if difference({"": first.value or 0.0}, {"": c.value or 0.0}) <= tolerance]
    return next(iter(values or calls), None)


# What a loss gives to the parameters it is to train: the same as before, where the loss is the same number.

SAME = 1e-6
"""How far two losses of the same numbers may lie apart. One small step moves a loss by little more than this, and may
move gradients by a hundred times as much."""


def behind_old_parts(evidence: Evidence, reuse: Reuse | None) -> frozenset[str]:
    """Names of the parameters behind what is stale, freed or older in the failing graph; empty where it is not known.

    What they get from the failing call passes a part that a fix is to mend or to cut off. All others get theirs by
    nodes that are as the forward pass left them.
    """
    found = {n for s in evidence.stale for n in s.behind} | (set(reuse.behind) if reuse is not None else set())
    if not evidence.stale:
        found |= {n for e in (*evidence.older_edges, *evidence.earlier_edges) for n in e.behind}
    return frozenset(found)


def cut_within(base: Trace, patched: Trace, failing: int, old: frozenset[str], tolerance: float) -> list[str]:
    """A doubt if the call that had failed has the very loss of the unpatched program, made to go on, and gives other
    gradients to what its own optimizers step: then the patch has cut between the loss and these.

    ``old`` are names of the parameters behind what is old in its graph. Where an earlier call has walked some of that
    graph for a step of the same optimizers, their gradient may end, or be another one. Where none has, this loss is the
    first to train by it: that another optimizer's step has made its weights others takes nothing from what it defines.
    """
    at = base.call_of(failing)
    if at is None or at.value is None or not at.gained:
        return []
    now = measures.same_call(base, patched, at)
    if now is None or not _same_value(at, now):
        return []
    own = base.trained_by(at)
    mine = _stepped_by(base, own, at)
    if _walked_for(base, own, at):
        mine = {k for k in mine if old and base.name(k) not in old}
    return _told(base, at, now, mine, tolerance)


def cut_elsewhere(
    base: Trace, patched: Trace, failing: int, tolerance: float, other: frozenset[str] = frozenset()
) -> list[str]:
    """A doubt if some call other than the failing one has the very loss that it had and gives other gradients to what
    its own optimizers step, although nothing of its graph had been walked for a step of theirs: then the patch, made
    for another use of a value, has cut a term out of this loss.

    Two losses of almost one value are compared only as long as no step has made the weights others: a small step moves
    a loss by little. Behind that the value has to be the very same, of a forward pass that ran before the step, or of
    weights that are the same still: a loss with a ratio that is 1 by construction has one value for all weights.
    A graph that an earlier call of the same optimizers has walked may be cut between the two: what carries values over
    from there is to be a constant. ``other`` are names of the parameters behind a value that was computed once, or that
    had no gradient: theirs is meant to be another. Where a gradient, or a call, is gone altogether, other measures
    speak.
    """
    if {c.place for c in base.backwards} - {c.place for c in patched.backwards}:
        return []
    alike_until = cache(partial(_alike_until, base, patched))
    end = alike_until()
    for at in base.backwards:
        own = base.trained_by(at)
        if at.index == failing or _walked_for(base, own, at):
            continue
        same = [c for c in patched.backwards if c.place == at.place and _same_value(at, c)]
        if at.index > end:
            known = bool(at.stale) or at.index <= alike_until(frozenset(own))
            same = [c for c in same if known and c.value == at.value != 0]
        keys = {k for k in _stepped_by(base, own, at) if base.name(k) not in other}
        told = [_told(base, at, now, {k for k in keys if k in now.gained}, tolerance) for now in same]
        if told and all(told):
            return told[0]
    return []


def cut_from_leaves(base: Trace, patched: Trace, tolerance: float) -> list[str]:
    """A doubt if, in a program without optimizers, some call that is the first to walk its graph has the very loss that
    it had and gives its leaves other gradients.

    Which of the leaves it is to train is not known then: a program that changes what has a gradient by itself changes
    all of them.
    """
    if base.optimizers or patched.optimizers:
        return []
    for at in base.calls:
        same = [c for c in patched.calls if c.place == at.place and c.kind == at.kind and _same_value(at, c)]
        if not same or all(difference(_given_leaves(at), _given_leaves(c)) > tolerance for c in same):
            if not same or at.shares or at.inner:
                return []  # from here on the leaves are others
            what = "its leaves" if at.kind == "backward" else "what it is asked for"
            return [
                f"the loss at {measures.told_place(at.place)} has the same value and gives other gradients to {what}"
            ]
    return []


def _alike_until(base: Trace, patched: Trace, optimizers: frozenset[int] | None = None) -> float:
    """The place in the order of the original's events up to which every optimizer, or each of these, has made the steps
    that it made."""
    for step in (s for s in base.steps if optimizers is None or s.optimizer in optimizers):
        other = measures.counterpart(base, patched, step)
        if other is None or difference(step.each, other.each) > SAME:
            return step.index
    return math.inf


def _given_leaves(call: Call) -> dict[str, float]:
    if call.kind == "backward":
        return {"": call.loose_sum}
    return {str(i): v for i, v in enumerate(call.sums) if v is not None}


def _stepped_by(trace: Trace, optimizers: set[int], call: Call) -> set[str]:
    """The parameters that a call gives gradient to and one of these optimizers steps."""
    return {k for k in call.gained if trace.holders(k) & optimizers}


def _walked_for(trace: Trace, optimizers: set[int], call: Call) -> bool:
    """Whether an earlier call, for which one of these optimizers stepped, had walked some of the graph of this one. By
    what ``autograd.grad`` gives back no optimizer steps."""
    trains = trace.trains()
    asked = {c.place for c in trace.calls if c.kind == "grad"}
    return any(optimizers & trains.get(place, optimizers) for place in call.shares - asked)


def _same_value(at: Call, now: Call) -> bool:
    if not now.measured or at.value is None or now.value is None:
        return False
    return apart(at.value, now.value) <= SAME


def _finite(call: Call) -> dict[str, float]:
    """What a call gives where that is finite: a nan of the original says nothing of what a right gradient is."""
    return {k: gain for k, gain in call.gained.items() if isfinite(gain)}


def _told(base: Trace, at: Call, now: Call, keys: set[str], tolerance: float) -> list[str]:
    """The doubt that one call gives other gradients to these parameters than the other does."""
    mine = {k: g for k, g in _finite(at).items() if k in keys}
    others = {k: now.gained.get(k, 0.0) for k in mine}
    gap = difference(mine, others)
    if gap <= tolerance:
        return []
    changed = [k for k in mine if difference({k: mine[k]}, {k: others[k]}) > tolerance]
    where, names = measures.told_place(at.place), measures.names_of(base, changed, mine)
    told = f"the loss at {where} has the same value and gives other gradients to {names}, which it is to train"
    return [f"{told} (by {percent(gap)})"]


# Judges a patched run against the original: what must hold before a fix may be called verified.

MORE = 5
"""Steps or backward calls beyond the point of the failure that a run which was stopped must have made."""


def crashed(outcome: Outcome, trace: Trace | None) -> Verdict | None:
    """The verdict on a patched run that did not get past the failure, which needs no comparison; else None."""
    data: dict[str, Any] = {"steps": trace.total_steps if trace else 0, "seconds": round(outcome.seconds, 2)}
    if outcome.refused:
        told = f"not tried: the program {outcome.refused} (--verify runs it all the same)"
        return Verdict(None, told, {"tried": False})
    met, failure = bool(outcome.failure), f"with {one_line(outcome.failure, 140)}"
    # What lets more be recorded cuts nothing off; whether it brought the next failure on is not known.
    beyond = outcome.traits.only_records and (outcome.elsewhere or outcome.passed)
    gone, changed = "the failure is gone, and the program then fails", "the changed program"
    status = outcome.exit_status
    rows: tuple[tuple[object, bool | None, bool | None, str], ...] = (
        (met and outcome.same, False, False, "the program still fails in the same way"),
        (met and outcome.autograd and beyond, None, True, f"{gone}{outcome.place} {failure}"),
        (met and outcome.autograd, False, False, f"the program now fails{outcome.place} {failure}"),
        (met and outcome.clumsy, False, False, f"{changed} fails {failure}"),
        (met and not (outcome.later and trace), None, None, f"the program then ends {failure}{outcome.outside}"),
        (outcome.still, False, None, "the program still shows the same"),
        (status and not (outcome.timed_out or met), None, False, f"{changed} ended with exit status {status}"),
        (trace is None, None, False, f"{changed} left no trace to compare"),
    )
    return next((Verdict(v, text, {"passed_crash": passed, **data}) for holds, v, passed, text in rows if holds), None)


def without_original(outcome: Outcome, trace: Trace, why: str, late: bool) -> Verdict:
    """The verdict on a patched run that has nothing to be compared with; ``why`` is the end of a sentence on the
    original. ``late``: with more time there would be something.
    """
    data = {"passed_crash": True, "steps": trace.total_steps, "seconds": round(outcome.seconds, 2)}
    told = f"the original could not be run again to compare with: {why}"
    return Verdict(None, told, {**data, "open": True} if late else data)


def judge(  # noqa: C901 (a straight list of measures, the first that fails decides)
    outcome: Outcome, trace: Trace, baseline: Baseline, safe: bool, same_numbers: bool = False
) -> Verdict:
    """Compare a patched run that ended well, or was stopped, with the original. See the module's functions for each
    measure; the first that fails is the reason given. ``same_numbers``: the fix is to leave the loss as it is.
    """
    data: dict[str, Any] = {
        "passed_crash": True,
        "steps": trace.total_steps,
        "lost_gradient": [],
        "seconds": round(outcome.seconds, 2),
    }
    base = baseline.trace
    went_on = baseline.gone != Baseline.gone
    if went_on:
        safe = same_numbers = False  # the numbers that the original has are not those to aim for
    trace.rekey(base)
    if outcome.timed_out and not _further(trace, baseline):
        reached = "no result" if trace.last_index >= baseline.failing >= 0 else "the failing call was not reached"
        return Verdict(None, f"{reached} within {outcome.seconds:.0f} s", {**data, "passed_crash": None, "open": True})
    if outcome.failure and not (_later_steps(trace, baseline) or trace.last_index > baseline.failing >= 0):
        behind = trace.last_index >= baseline.failing >= 0
        told = f"{baseline.gone}; {then_fails(outcome)}" if behind else fails_otherwise(outcome)
        # Where the failing call was not reached, what the change does there is not known.
        passed = {"passed_crash": behind or None}
        return Verdict(None, f"{told}, before anything could be compared", {**data, **passed})
    if outcome.timed_out or outcome.stopped or outcome.failure:
        # What the other run did after this one was ended is nothing that this one has lost.
        base = base.until(max(trace.last_index, baseline.failing + 1))
    unfinite = not_finite(base, trace, baseline.unfinite)
    if unfinite and baseline.unfinite:
        return Verdict(False, unfinite, {**data, "passed_crash": None, "not_finite": True})
    sound = _while_finite(base) if baseline.unfinite else base
    lost = [name for name in usage.lost_parameters(sound, trace, baseline.expected) if name not in baseline.spared]
    lost = _to_be_reached(lost, base, trace, outcome, data)
    data["lost_gradient"] = lost
    gone = measures.stopped_steps(base, trace)
    idle = safe and measures.idle_before(base, baseline.failing)
    wrong = (
        f"{baseline.gone}, but {told_lost(base, lost)}" if lost else "",
        f"{baseline.gone}, but {listed(gone)} no longer {'steps' if len(gone) == 1 else 'step'}" if gone else "",
        usage.reaches_nothing(trace, baseline.covered),
        "" if idle else measures.silent_afterwards(trace, baseline.failing, baseline.gone),
        measures.walks_old_graph(base, trace, baseline.failing, baseline.gone),
    )
    if any(wrong):
        return Verdict(False, next(filter(None, wrong)), data)
    doubts: list[str] = [told for told in (outcome.left, unfinite) if told]
    difference = None
    if safe or same_numbers:
        how = ""
        if not baseline.no_reference:
            difference, how = measures.reference_difference(base, trace, baseline.failing)
        none = "the unpatched program gives no gradient there"
        if baseline.late:
            none = "the time of the unpatched program was up before it came there"
        data["reference"] = how or f"none: {baseline.no_reference or none}"
        if baseline.late and not how:
            data["open"] = True  # with more time there may be something to compare with
        if difference is not None:
            data["max_relative_difference"] = difference
            if not difference <= TOLERANCE:
                # Not wrong for certain: where other code saw what was written in place, ending that is a choice.
                doubts.append(f"gradients differ from the reference by {difference:.2g} of their size")
    if same_numbers and not baseline.no_reference:
        moved, changed = measures.changed_loss(base, trace, baseline.failing, TOLERANCE)
        if moved is not None:
            data["loss_difference"] = moved
        doubts += changed
    if went_on and outcome.traits.keeps_loss and baseline.steady:
        doubts += measures.changed_first_loss(base, trace, TOLERANCE * 10)
    if baseline.unfinite and outcome.traits.keeps_finite and baseline.steady:
        doubts[:0] = changed_before(base, trace, TOLERANCE * 10)
    redrawn = baseline.steady and not safe and not same_numbers and measures.draws_elsewhere(base, trace)
    # What is given a graph cuts nothing: that a loss of the same value then trains by more is what it is for.
    may_cut = baseline.steady and (outcome.traits.keeps_numbers or not outcome.traits.only_records)
    if redrawn:
        data["draws_elsewhere"] = True
    if (
        baseline.steady
        and not redrawn
        and outcome.traits.runs_again
        and measures.draws_again(base, trace, baseline.failing)
    ):
        data["draws_again"] = True
    if not baseline.no_reference and not redrawn:
        gradients, loss = usage.reference_gap(base, trace, baseline.failing)
        gaps = {"reference_gradients": gradients, "reference_loss": loss}
        data.update({name: round(gap, 6) for name, gap in gaps.items() if gap is not None})
        same_loss = outcome.traits.keeps_numbers or outcome.traits.keeps_loss
        if baseline.steady and same_loss and loss is not None and loss > TOLERANCE * 10:
            doubts.append(f"the loss is {percent(loss)} off that of the program as it is written")
        if may_cut:
            doubts += cut_within(base, trace, baseline.failing, baseline.old_parts, TOLERANCE * 10)
    later = usage.not_compared(base, trace)
    if later:
        data["not_compared"] = later
    if not baseline.steady:
        data["reference"] = f"none: {baseline.no_reference}"
    allowed, suspect = measures.stopped_flows(base, trace, baseline.failing, baseline.own_graph, baseline.spared)
    if allowed:
        data["stopped_elsewhere"] = allowed
    doubts += suspect
    doubts += usage.cleared(base, trace, baseline.piled, outcome.traits.clears)
    doubts += [*usage.steps_in_vain(base, trace), *usage.steps_starved(base, trace), *usage.fed_once(base, trace)]
    doubts += usage.zeros_alone(base, trace)
    # What only lets more be recorded puts no gradient into another step's sum.
    doubts += [*usage.steps_twice(base, trace), *(() if outcome.traits.only_records else usage.mixed(base, trace))]
    missed = _to_be_reached(usage.never_reached(base, trace, baseline.reached_from), base, trace, outcome, data)
    if usage.unused_by_steps(base, trace) - {*missed}:
        data["left_out"] = True
    if missed and outcome.traits.only_forgets:
        data["never_reached"] = missed
    elif missed:
        doubts.append(f"{folded(missed)} {receive(missed)} no gradient at any step")
    if baseline.sound and may_cut and not redrawn:
        changed = changed_first_call(base, trace, baseline.failing, TOLERANCE * 10, baseline.once)
        if not changed and baseline.once:  # what a constant means is no doubt, and is said
            data["first_call"] = changed_first_call(base, trace, baseline.failing, TOLERANCE * 10)
        doubts += changed or cut_elsewhere(base, trace, baseline.failing, TOLERANCE * 10, baseline.once)
        doubts += cut_from_leaves(base, trace, TOLERANCE * 10)
    elif went_on and may_cut and not redrawn:
        doubts += cut_elsewhere(base, trace, baseline.failing, TOLERANCE * 10, baseline.meant)
    doubts += measures.steps_by_old_values(base, trace, baseline.failing)
    doubts += measures.graph_grows(trace)
    doubts += measures.new_warnings(base, trace)
    if doubts:
        data["doubts"] = list(dict.fromkeys(doubts))
        return Verdict(None, f"{baseline.gone}, but {doubts[0]}", data)
    # Of a program that came to no loss there are no numbers that were to stay.
    without = baseline.no_reference == Baseline.no_reference and not (same_numbers and base.backwards)
    trained = without and (_later_steps(trace, baseline) or _leaves(base, trace, outcome.traits.only_records))
    if difference is None and (safe or not trace.steps) and not trained:
        # Nothing has measured the gradients: neither those of an unpatched run nor what an optimizer uses.
        data["unmeasured"] = True
        return Verdict(None, f"{baseline.gone}, but {unmeasured(data)}", data)
    if difference is None and safe:
        data["without_reference"] = True
    ended = baseline.spared & {base.name(key) for _, key in base.used() - trace.used()}
    known = bool(base.used())
    if {key for _, key in base.flows()} - {key for _, key in trace.flows()}:
        data["idle_stopped"] = True  # of what no step uses: it is not to be said that all still get theirs
    return Verdict(True, praise(outcome, trace, data, known, went_on, baseline.steady, bool(ended)), data)


def _to_be_reached(names: list[str], base: Trace, trace: Trace, outcome: Outcome, data: dict[str, Any]) -> list[str]:
    """Of parameters without gradient those that a right program gives one; the others are noted in ``data``."""
    away = usage.differentiated_away(base, trace, names) if outcome.traits.only_records else set()
    if away:
        data["differentiated_away"] = sorted({*away, *data.get("differentiated_away", ())})
    return [name for name in names if name not in away]


def _later_steps(trace: Trace, baseline: Baseline) -> bool:
    """Whether some optimizer stepped behind the failure, with gradients that are not all zero."""
    before = len(baseline.trace.steps)
    behind = trace.steps[before:] if baseline.failing < 0 else [s for s in trace.steps if s.index > baseline.failing]
    return any(s.gradients for s in behind)


def _leaves(base: Trace, patched: Trace, only_records: bool) -> bool:
    """Whether, in a program without optimizers, every backward goes on to give as many leaves a gradient as before the
    failure: as far as the original came, its calls are matched, and there are more of them. Where its first call
    failed, each of several calls gives one to some leaf, by a change that only lets more be recorded.
    """
    if base.optimizers or patched.optimizers or len(patched.backwards) <= len(base.backwards):
        return False
    if not base.backwards and only_records:
        counts = [count for _, count in _loose(patched)]
        return len(counts) > 1 and all(counts)
    least = {place: min(c.loose for c in base.backwards if c.place == place) for place, _ in _loose(base)}
    return bool(least) and all(count >= least.get(place, 1) for place, count in _loose(patched))


def _loose(trace: Trace) -> list[tuple[Line, int]]:
    return [(c.place, c.loose) for c in trace.backwards if c.measured]


def _further(trace: Trace, baseline: Baseline) -> bool:
    """Whether a run that was stopped had gone well beyond the point of the failure."""
    before = [e for e in baseline.trace.order if baseline.failing < 0 or e.index <= baseline.failing]
    calls = sum(1 for e in before if isinstance(e, Call))
    return trace.total_calls >= calls + MORE or trace.total_steps >= len(before) - calls + MORE
