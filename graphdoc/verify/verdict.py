"""Judges a patched run against the original: what must hold before a fix may be called verified."""

from __future__ import annotations

from typing import Any

from graphdoc.story.wording import folded
from graphdoc.verify.compared import TOLERANCE, Baseline, Outcome, Verdict
from graphdoc.verify.finite import changed_before, not_finite
from graphdoc.verify.first_call import changed_first_call
from graphdoc.verify.measures import (
    changed_first_loss,
    changed_loss,
    draws_again,
    draws_elsewhere,
    graph_grows,
    new_warnings,
    reference_difference,
    silent_afterwards,
    steps_by_old_values,
    stopped_flows,
    stopped_steps,
    walks_old_graph,
)
from graphdoc.verify.own_gradients import cut_elsewhere, cut_from_leaves, cut_within
from graphdoc.verify.traces import Call, Line, Trace
from graphdoc.verify.usage import (
    cleared,
    differentiated_away,
    fed_once,
    lost_parameters,
    mixed,
    never_reached,
    not_compared,
    reaches_nothing,
    reference_gap,
    steps_in_vain,
    steps_starved,
    steps_twice,
    unused_by_steps,
    zeros_alone,
)
from graphdoc.verify.verdict_words import (
    fails_otherwise,
    listed,
    percent,
    praise,
    receive,
    shortened,
    then_fails,
    told_lost,
    unmeasured,
)

MORE = 5
"""Steps or backward calls beyond the point of the failure that a run which was stopped must have made."""


def crashed(outcome: Outcome, trace: Trace | None) -> Verdict | None:
    """The verdict on a patched run that did not get past the failure, which needs no comparison; else None."""
    data: dict[str, Any] = {
        "passed_crash": False,
        "steps": trace.total_steps if trace else 0,
        "seconds": round(outcome.seconds, 2),
    }
    if outcome.refused:
        told = f"not tried: the program {outcome.refused} (--verify runs it all the same)"
        return Verdict(None, told, {"tried": False})
    if outcome.failure and outcome.same:
        return Verdict(False, "the program still fails in the same way", data)
    if outcome.failure and outcome.autograd and outcome.traits.only_records and (outcome.elsewhere or outcome.passed):
        # What lets more be recorded cuts nothing off; whether it brought the next failure on is not known.
        end = f"the failure is gone, and the program then fails{outcome.place} with {shortened(outcome.failure)}"
        return Verdict(None, end, {**data, "passed_crash": True})
    if outcome.failure and outcome.autograd:
        return Verdict(False, f"the program now fails{outcome.place} with {shortened(outcome.failure)}", data)
    if outcome.failure and outcome.clumsy:
        return Verdict(False, f"the changed program fails with {shortened(outcome.failure)}", data)
    if outcome.failure and not (outcome.later and trace is not None):
        end = f"the program then ends with {shortened(outcome.failure)}{outcome.outside}"
        return Verdict(None, end, {**data, "passed_crash": None})
    if outcome.still:
        return Verdict(False, "the program still shows the same", {**data, "passed_crash": None})
    if outcome.exit_status and not outcome.timed_out and not outcome.failure:
        return Verdict(None, f"the changed program ended with exit status {outcome.exit_status}", data)
    if trace is None:
        return Verdict(None, "the changed program left no trace to compare", data)
    return None


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
    lost = [name for name in lost_parameters(base, trace, baseline.expected) if name not in baseline.spared]
    lost = _to_be_reached(lost, base, trace, outcome, data)
    data["lost_gradient"] = lost
    if lost:
        return Verdict(False, f"{baseline.gone}, but {told_lost(base, lost)}", data)
    gone = stopped_steps(base, trace)
    if gone:
        return Verdict(
            False, f"{baseline.gone}, but {listed(gone)} no longer {'steps' if len(gone) == 1 else 'step'}", data
        )
    still = reaches_nothing(trace, baseline.covered)
    if still:
        return Verdict(False, still, data)
    silent = silent_afterwards(trace, baseline.failing, baseline.gone)
    if silent:
        return Verdict(False, silent, data)
    old = walks_old_graph(base, trace, baseline.failing, baseline.gone)
    if old:
        return Verdict(False, old, data)
    doubts: list[str] = [told for told in (outcome.left, unfinite) if told]
    difference = None
    if safe or same_numbers:
        how = ""
        if not baseline.no_reference:
            difference, how = reference_difference(base, trace, baseline.failing)
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
        moved, changed = changed_loss(base, trace, baseline.failing, TOLERANCE)
        if moved is not None:
            data["loss_difference"] = moved
        doubts += changed
    if went_on and outcome.traits.keeps_loss and baseline.steady:
        doubts += changed_first_loss(base, trace, TOLERANCE * 10)
    if baseline.unfinite and outcome.traits.keeps_finite and baseline.steady:
        doubts += changed_before(base, trace, TOLERANCE * 10)
    redrawn = baseline.steady and not safe and not same_numbers and draws_elsewhere(base, trace)
    if redrawn:
        data["draws_elsewhere"] = True
    if baseline.steady and not redrawn and outcome.traits.runs_again and draws_again(base, trace, baseline.failing):
        data["draws_again"] = True
    if not baseline.no_reference and not redrawn:
        gradients, loss = reference_gap(base, trace, baseline.failing)
        gaps = {"reference_gradients": gradients, "reference_loss": loss}
        data.update({name: round(gap, 6) for name, gap in gaps.items() if gap is not None})
        same_loss = outcome.traits.keeps_numbers or outcome.traits.keeps_loss
        if baseline.steady and same_loss and loss is not None and loss > TOLERANCE * 10:
            doubts.append(f"the loss is {percent(loss)} off that of the program as it is written")
        if baseline.steady:
            doubts += cut_within(base, trace, baseline.failing, baseline.old_parts, TOLERANCE * 10)
    later = not_compared(base, trace)
    if later:
        data["not_compared"] = later
    if not baseline.steady:
        data["reference"] = f"none: {baseline.no_reference}"
    allowed, suspect = stopped_flows(base, trace, baseline.failing, baseline.own_graph, baseline.spared)
    if allowed:
        data["stopped_elsewhere"] = allowed
    doubts += suspect
    doubts += cleared(base, trace, baseline.piled, outcome.traits.clears)
    doubts += [*steps_in_vain(base, trace), *steps_starved(base, trace), *fed_once(base, trace)]
    doubts += zeros_alone(base, trace)
    # What only lets more be recorded puts no gradient into another step's sum.
    doubts += [*steps_twice(base, trace), *(() if outcome.traits.only_records else mixed(base, trace))]
    missed = _to_be_reached(never_reached(base, trace, baseline.reached_from), base, trace, outcome, data)
    if unused_by_steps(base, trace) - {*missed}:
        data["left_out"] = True
    if missed and outcome.traits.only_forgets:
        data["never_reached"] = missed
    elif missed:
        doubts.append(f"{folded(missed)} {receive(missed)} no gradient at any step")
    if baseline.sound and baseline.steady and not redrawn:
        changed = changed_first_call(base, trace, baseline.failing, TOLERANCE * 10, baseline.once)
        if not changed and baseline.once:  # what a constant means is no doubt, and is said
            data["first_call"] = changed_first_call(base, trace, baseline.failing, TOLERANCE * 10)
        doubts += changed or cut_elsewhere(base, trace, baseline.failing, TOLERANCE * 10, baseline.once)
        doubts += cut_from_leaves(base, trace, TOLERANCE * 10)
    elif went_on and baseline.steady and not redrawn:
        doubts += cut_elsewhere(base, trace, baseline.failing, TOLERANCE * 10, baseline.meant)
    doubts += steps_by_old_values(base, trace, baseline.failing)
    doubts += graph_grows(trace)
    doubts += new_warnings(base, trace)
    if doubts:
        data["doubts"] = list(dict.fromkeys(doubts))
        return Verdict(None, f"{baseline.gone}, but {doubts[0]}", data)
    without = baseline.no_reference == Baseline.no_reference and not same_numbers
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
    away = differentiated_away(base, trace, names) if outcome.traits.only_records else set()
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
