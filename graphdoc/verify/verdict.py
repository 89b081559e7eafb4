"""Judges a patched run against the original: what must hold before a fix may be called verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphdoc.evidence import Evidence
from graphdoc.story.wording import folded
from graphdoc.verify.measures import (
    changed_first_call,
    changed_loss,
    draws_elsewhere,
    graph_grows,
    new_warnings,
    reference_difference,
    silent_afterwards,
    stopped_flows,
    stopped_steps,
    walks_old_graph,
)
from graphdoc.verify.own_gradients import cut_within
from graphdoc.verify.traces import Call, Line, Trace
from graphdoc.verify.usage import cleared, lost_parameters, never_reached, not_compared, reference_gap

TOLERANCE = 1e-4
"""Relative difference of gradients up to which two runs count as equal."""
MORE = 5
"""Steps or backward calls beyond the point of the failure that a run which was stopped must have made."""


@dataclass
class Verdict:
    """``verified`` is None where the trial ended well enough but something speaks against calling it proven.

    ``equal`` is False where a fix that was to leave the gradients as they are has not. ``unmeasured``: nothing speaks
    against it, but there was nothing to compare with. ``open``: more time may tell more. ``refused``: it was not tried,
    because the program does what cannot be kept from the user's files; where it is ``open`` as well, because the time
    was used up. ``failed`` is the evidence of the other failure
    that the patched run met behind the first one, if it did, and ``elsewhere`` whether another call raised it; neither
    is kept with the verdict.
    """

    verified: bool | None
    summary: str
    data: dict[str, Any] = field(default_factory=dict)
    failed: Evidence | None = None
    elsewhere: bool = False

    @property
    def unmeasured(self) -> bool:
        return bool(self.data.get("unmeasured"))

    @property
    def without_reference(self) -> bool:
        """Whether a fix that was to leave the gradients as they are is proven by what trains alone."""
        return bool(self.data.get("without_reference"))

    @property
    def open(self) -> bool:
        return bool(self.data.get("open"))

    @property
    def refused(self) -> bool:
        return self.data.get("tried") is False

    @property
    def equal(self) -> bool:
        return bool(self.data.get("max_relative_difference", 0.0) <= TOLERANCE)

    @property
    def differs(self) -> bool:
        """Whether numbers of the patched run were found to differ from the original's, or something was doubted."""
        gaps = (self.data.get("reference_gradients", 0.0), self.data.get("reference_loss", 0.0))
        told = self.data.get("doubts") or self.data.get("draws_elsewhere")
        return bool(told) or (self.verified is not False and max(gaps) > TOLERANCE)

    def to_json(self) -> dict[str, Any]:
        return {**self.data, "summary": self.summary}


@dataclass
class Outcome:
    """How the patched program ended, as far as traces do not tell: ``failure`` is its exception, ``same`` and
    ``autograd`` whether that is the original's and one of autograd's, ``clumsy`` whether the patch itself is at fault.
    ``stopped``: it was ended, having gone far enough behind the failure; ``refused`` is what it did that could not be
    kept from the user's files, and ``printed`` the last line of its output. ``outside``: the exception is one about
    files or the network. ``still``: what had been seen in the original, which went on, is seen in it too.
    ``left`` is a doubt: something else of the same kind is still seen.
    ``next`` is the evidence of a failure of autograd's that is not the original's, ``elsewhere`` whether another call
    raised it, and ``place`` names where, as the end of a sentence. ``later``: the exception is none of autograd's, and
    nothing that was changed leads to where it came from. ``cuts`` is False for a change that can take no gradient away.
    """

    exit_status: int
    timed_out: bool
    seconds: float
    failure: str = ""
    same: bool = False
    autograd: bool = False
    clumsy: bool = False
    stopped: bool = False
    refused: str = ""
    printed: str = ""
    outside: bool = False
    still: bool = False
    left: str = ""
    next: Evidence | None = None
    elsewhere: bool = False
    place: str = ""
    later: bool = False
    cuts: bool = True


@dataclass
class Baseline:
    """The original's trace. ``failing`` is the journal index of the call that failed, -1 where none is known.

    ``no_reference`` says why the trace does not hold the gradients that a safe fix has to give (it goes no further than
    that point, or its gradients behind it are not those to aim for), and is empty where it does. ``expected`` are names
    of parameters that the evidence says are to receive gradient. ``sound`` is False where what the original did before
    it failed was wrong already: gradients that were never exchanged between ranks. ``own_graph`` are names of the
    parameters that the failing call reached by nodes newer than the earlier calls. ``spared`` are names of parameters
    that are to receive no gradient any more, ``once`` of those behind a value that was computed once for all calls,
    ``piled`` of those whose gradients nobody has cleared.
    ``steady`` is False where the original's own numbers differ from run to run. ``gone`` says in a sentence's first
    half what a patch has to achieve. ``reached_from`` are names of the parameters behind the original's backward calls,
    the failing one among them, by place; empty where one of them is not known. ``old_parts`` are names of the
    parameters behind what is stale, freed or older in the failing graph.
    """

    trace: Trace
    failing: int = -1
    no_reference: str = "the unpatched program could not be made to go on"
    expected: frozenset[str] = frozenset()
    sound: bool = True
    own_graph: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    once: frozenset[str] = frozenset()
    piled: frozenset[str] = frozenset()
    steady: bool = True
    gone: str = "the crash is gone"
    reached_from: Mapping[Line, frozenset[str]] = field(default_factory=dict)
    old_parts: frozenset[str] = frozenset()


def crashed(outcome: Outcome, trace: Trace | None) -> Verdict | None:
    """The verdict on a patched run that did not get past the failure, which needs no comparison; else None."""
    data: dict[str, Any] = {
        "passed_crash": False,
        "steps": trace.total_steps if trace else 0,
        "seconds": round(outcome.seconds, 2),
    }
    if outcome.refused:
        return Verdict(None, f"not tried: the program {outcome.refused}", {"tried": False})
    if outcome.failure and outcome.same:
        return Verdict(False, "the program still fails in the same way", data)
    if outcome.failure and outcome.autograd:
        return Verdict(False, f"the program now fails{outcome.place} with {_short(outcome.failure)}", data)
    if outcome.failure and outcome.clumsy:
        return Verdict(False, f"the changed program fails with {_short(outcome.failure)}", data)
    if outcome.failure and not (outcome.later and trace is not None):
        hint = " (a trial has no network, and what it writes goes nowhere)" if outcome.outside else ""
        end = f"the program then ends with {_short(outcome.failure)}{hint}"
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
        return Verdict(None, f"{baseline.gone}; {_then(outcome)}, before anything could be compared", data)
    if outcome.timed_out or outcome.stopped or outcome.failure:
        # What the other run did after this one was ended is nothing that this one has lost.
        base = base.until(max(trace.last_index, baseline.failing + 1))
    lost = [name for name in lost_parameters(base, trace, baseline.expected) if name not in baseline.spared]
    data["lost_gradient"] = lost
    if lost:
        return Verdict(False, f"{baseline.gone}, but {_lost(base, lost)}", data)
    gone = stopped_steps(base, trace)
    if gone:
        return Verdict(
            False, f"{baseline.gone}, but {_list(gone)} no longer {'steps' if len(gone) == 1 else 'step'}", data
        )
    silent = silent_afterwards(trace, baseline.failing, baseline.gone)
    if silent:
        return Verdict(False, silent, data)
    old = walks_old_graph(base, trace, baseline.failing, baseline.gone)
    if old:
        return Verdict(False, old, data)
    doubts: list[str] = [outcome.left] if outcome.left else []
    difference = None
    if safe or same_numbers:
        how = ""
        if not baseline.no_reference:
            difference, how = reference_difference(base, trace, baseline.failing)
        data["reference"] = how or f"none: {baseline.no_reference or 'the unpatched program gives no gradient there'}"
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
    redrawn = baseline.steady and not safe and not same_numbers and draws_elsewhere(base, trace)
    if redrawn:
        data["draws_elsewhere"] = True
    if not baseline.no_reference and not redrawn:
        gradients, loss = reference_gap(base, trace, baseline.failing)
        gaps = {"reference_gradients": gradients, "reference_loss": loss}
        data.update({name: round(gap, 6) for name, gap in gaps.items() if gap is not None})
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
    doubts += cleared(base, trace, baseline.piled)
    missed = never_reached(base, trace, baseline.reached_from)
    if missed and not outcome.cuts:
        data["never_reached"] = missed
    elif missed:
        doubts.append(f"{folded(missed)} {_receive(missed)} no gradient at any step")
    if baseline.sound and baseline.steady and not redrawn:
        doubts += changed_first_call(base, trace, baseline.failing, TOLERANCE * 10, baseline.once)
    doubts += graph_grows(trace)
    doubts += new_warnings(base, trace)
    if doubts:
        data["doubts"] = doubts
        return Verdict(None, f"{baseline.gone}, but {doubts[0]}", data)
    without = baseline.no_reference == Baseline.no_reference and not same_numbers
    trained = without and (_later_steps(trace, baseline) or _leaves(base, trace))
    if difference is None and (safe or not trace.steps) and not trained:
        # Nothing has measured the gradients: neither those of an unpatched run nor what an optimizer uses.
        data["unmeasured"] = True
        return Verdict(None, f"{baseline.gone}, but {_unmeasured(data)}", data)
    if difference is None and safe:
        data["without_reference"] = True
    ended = baseline.spared & {base.name(key) for _, key in base.used() - trace.used()}
    known = bool(base.used())
    return Verdict(True, _praise(outcome, trace, data, known, went_on, baseline.steady, bool(ended)), data)


def _later_steps(trace: Trace, baseline: Baseline) -> bool:
    """Whether some optimizer stepped behind the failure, with gradients that are not all zero."""
    before = len(baseline.trace.steps)
    behind = trace.steps[before:] if baseline.failing < 0 else [s for s in trace.steps if s.index > baseline.failing]
    return any(s.gradients for s in behind)


def _leaves(base: Trace, patched: Trace) -> bool:
    """Whether, in a program without optimizers, every backward goes on to give as many leaves a gradient as before the
    failure: as far as the original came, its calls are matched, and there are more of them.
    """
    if base.optimizers or patched.optimizers or len(patched.backwards) <= len(base.backwards):
        return False
    least = {place: min(c.loose for c in base.backwards if c.place == place) for place, _ in _loose(base)}
    return bool(least) and all(count >= least.get(place, 1) for place, count in _loose(patched))


def _loose(trace: Trace) -> list[tuple[Line, int]]:
    return [(c.place, c.loose) for c in trace.backwards if c.measured]


def _then(outcome: Outcome) -> str:
    return f"the program then meets another failure{outcome.place}, which no changed line leads to: " + _short(
        outcome.failure
    )


def _unmeasured(data: dict[str, Any]) -> str:
    why = str(data.get("reference", "")).removeprefix("none: ")
    return f"there is nothing to compare its gradients with{f' ({why})' if why else ''}"


def _further(trace: Trace, baseline: Baseline) -> bool:
    """Whether a run that was stopped had gone well beyond the point of the failure."""
    before = [e for e in baseline.trace.order if baseline.failing < 0 or e.index <= baseline.failing]
    calls = sum(1 for e in before if isinstance(e, Call))
    return trace.total_calls >= calls + MORE or trace.total_steps >= len(before) - calls + MORE


def _praise(
    outcome: Outcome, trace: Trace, data: dict[str, Any], known: bool, went_on: bool, steady: bool, ended: bool
) -> str:
    end = f"still running after {outcome.seconds:.0f} s" if outcome.timed_out else "ran to its end"
    if outcome.stopped:
        end = "went on until it was stopped" if went_on else "went on behind the failure until it was stopped"
    if outcome.failure:
        end = "went on behind the failure"
    steps = f"{trace.total_steps} optimizer steps" if trace.total_steps != 1 else "1 optimizer step"
    parts = [f"the patched program {end} ({steps})"]
    parts.append(_reached(trace, data, known, ended))
    if "max_relative_difference" in data:
        difference = data["max_relative_difference"]
        parts.append(f"gradients equal the reference (largest relative difference {difference:.1g})")
    elif data.get("reference_gradients", 1.0) <= TOLERANCE:
        parts.append("gradients equal those of the program as it is written, made to go on")
    elif data.get("loss_difference") is not None:
        parts.append("the loss is that of the unpatched program made to go on")
    gap = {k: v for k in ("gradients", "loss") if (v := data.get(f"reference_{k}", 0.0)) > TOLERANCE}
    if gap:
        told = " and ".join(f"{what} by {100 * size:.2g} %" for what, size in gap.items())
        parts.append(f"behind the failure it differs from the program as it is written: {told}")
    if not steady:
        parts.append("the program's numbers differ from one run to the next, and were not compared")
    elif data.get("draws_elsewhere"):
        parts.append("it draws its random numbers in another order, so that its numbers could not be compared")
    for stopped in data.get("stopped_elsewhere", [])[:2]:
        parts.append(stopped)
    if data.get("not_compared"):
        where = "are none of the unpatched program's" if went_on else "lie behind the failure"
        parts.append(f"the steps of {_list(data['not_compared'])} {where} and could not be compared")
    if outcome.failure:
        parts.append(_then(outcome))
    return "; ".join(part for part in parts if part)


def _lost(base: Trace, lost: list[str]) -> str:
    """Which parameters get nothing; only of those that a step of the original had a gradient for is it new."""
    had = {base.name(key) for _, key in base.used()}
    gone, never = [n for n in lost if n in had], [n for n in lost if n not in had]
    parts = [f"{folded(gone)} no longer {_receive(gone)} any gradient"] if gone else []
    parts += [f"{folded(never)}, which a step is to use, {_receive(never)} no gradient"] if never else []
    return " and ".join(parts)


def _reached(trace: Trace, data: dict[str, Any], known: bool, ended: bool) -> str:
    """What the patched program trains, as one part of the sentence. ``ended``: what was to get no gradient any more
    gets none.
    """
    missed = data.get("never_reached", [])
    if known and trace.backwards:
        return f"every {'other ' if ended else ''}parameter that received gradient still does"
    if missed:
        return f"the change takes no gradient from anything; {folded(missed)} {_receive(missed)} none at any step"
    if trace.steps:
        return "every parameter of its optimizers receives gradient"
    return "" if trace.optimizers else "as many leaves receive gradient as before"


def _receive(names: list[str]) -> str:
    return "receives" if len(names) == 1 else "receive"


def _list(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 140 else line[:139] + "…"
