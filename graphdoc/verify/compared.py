"""What a trial compares, what a what-if run measured of the patch, and the verdict: in words, and kept with the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphdoc.documents import Unreadable, read_object
from graphdoc.evidence import GRADIENTS, Evidence
from graphdoc.files import write_private
from graphdoc.fixes.kinds import NO_TRAITS, Traits
from graphdoc.story.wording import folded, listing, one_line, optimizer_of
from graphdoc.verify.traces import Line, Trace

TOLERANCE = 1e-4
"""Relative difference of gradients up to which two runs count as equal."""


def _noted(key: str) -> Callable[[Verdict], bool]:
    return lambda verdict: bool(verdict.data.get(key))


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

    unmeasured = property(_noted("unmeasured"))
    without_reference = property(_noted("without_reference"))
    """Whether a fix that was to leave the gradients as they are is proven by what trains alone."""
    unfinite = property(_noted("not_finite"))
    """Whether a loss or gradient that was to be finite was not."""
    draws_again = property(_noted("draws_again"))
    """Whether a computation runs a second time and draws other random numbers than the first time."""
    open = property(_noted("open"))

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
    kept from the user's files, and ``printed`` the last line of its output. ``outside``: how a trial may be to blame
    for the exception. ``still``: what had been seen in the original, which went on, is seen in it too.
    ``left`` is a doubt: something else of the same kind is still seen.
    ``next`` is the evidence of a failure of autograd's that is not the original's, ``elsewhere`` whether another call
    raised it, ``passed`` whether a later one did, and ``place`` names where, as the end of a sentence. ``later``: the
    exception is none of autograd's, and nothing that was changed leads to where it came from. ``traits`` are what the
    change says of itself.
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
    outside: str = ""
    still: bool = False
    left: str = ""
    next: Evidence | None = None
    elsewhere: bool = False
    passed: bool = False
    place: str = ""
    later: bool = False
    traits: Traits = NO_TRAITS


@dataclass
class Baseline:
    """The original's trace. ``failing`` is the journal index of the call that failed, -1 where none is known.

    ``no_reference`` says why the trace does not hold the gradients that a safe fix has to give (it goes no further than
    that point, or its gradients behind it are not those to aim for), and is empty where it does. ``expected`` are names
    of parameters that the evidence says are to receive gradient. ``sound`` is False where what the original did before
    it failed was wrong already: gradients that were never exchanged between ranks. ``own_graph`` are names of the
    parameters that the failing call reached by nodes newer than the earlier calls. ``spared`` are names of parameters
    that are to receive no gradient any more, ``once`` of those behind a value that was computed once for all calls,
    ``piled`` of those whose gradients nobody has cleared, ``meant`` of those whose gradients are to be others, in a run
    that went on.
    ``steady`` is False where the original's own numbers differ from run to run. ``gone`` says in a sentence's first
    half what a patch has to achieve. ``reached_from`` are names of the parameters behind the original's backward calls,
    the failing one among them, by place; empty where one of them is not known. ``old_parts`` are names of the
    parameters behind what is stale, freed or older in the failing graph. ``late``: its time was up before its end.
    ``covered`` are the places of backward calls that were seen to reach no parameter. ``unfinite``: the original
    went on with values that are not finite, which a patch is to end.
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
    meant: frozenset[str] = frozenset()
    steady: bool = True
    gone: str = "the crash is gone"
    reached_from: Mapping[Line, frozenset[str]] = field(default_factory=dict)
    old_parts: frozenset[str] = frozenset()
    late: bool = False
    covered: frozenset[Line] = frozenset()
    unfinite: bool = False


# A verdict in words: how the patched run ended, what it trains, what could not be compared.


def then_fails(outcome: Outcome) -> str:
    return f"the program then meets {_another(outcome)}"


def fails_otherwise(outcome: Outcome) -> str:
    """Of a program that may not have come as far as the failure."""
    return f"the patched program meets {_another(outcome)}"


def _another(outcome: Outcome) -> str:
    failure = f"{one_line(outcome.failure, 140)}{outcome.outside}"
    return f"another failure{outcome.place}, which no changed line leads to: {failure}"


def unmeasured(data: dict[str, Any]) -> str:
    why = str(data.get("reference", "")).removeprefix("none: ")
    return f"there is nothing to compare its gradients with{f' ({why})' if why else ''}"


def percent(size: float) -> str:
    """``4.2 %``, ``91 %``, ``250 %``."""
    return f"{100 * size:.2g} %" if size < 0.995 else f"{100 * size:.0f} %"


def praise(
    outcome: Outcome, trace: Trace, data: dict[str, Any], known: bool, went_on: bool, steady: bool, ended: bool
) -> str:
    end = f"still running after {outcome.seconds:.0f} s" if outcome.timed_out else "ran to its end"
    if outcome.stopped:
        end = "ran until it was stopped" if went_on else "ran on past the failure until it was stopped"
    if outcome.failure:
        end = "ran on past the failure"
    steps = f"{trace.total_steps} optimizer steps" if trace.total_steps != 1 else "1 optimizer step"
    parts = [f"the patched program {end} ({steps})"]
    parts.append(reached(trace, data, known, ended))
    if "max_relative_difference" in data:
        difference = data["max_relative_difference"]
        parts.append(f"gradients equal the reference (largest relative difference {difference:.1g})")
    elif data.get("reference_gradients", 1.0) <= TOLERANCE:
        parts.append("gradients equal those of the program as it is written, made to go on")
    elif data.get("loss_difference") is not None:
        parts.append("the loss is that of the unpatched program made to go on")
    gap = {k: v for k in ("gradients", "loss") if (v := data.get(f"reference_{k}", 0.0)) > TOLERANCE}
    if gap and "max_relative_difference" not in data:  # one call on a sum has another loss, and equal gradients
        told = " and ".join(f"{what} by {percent(size)}" for what, size in gap.items())
        parts.append(f"it differs from the program as it is written: {told}")
    parts += data.get("first_call", [])
    if not steady:
        parts.append("the program's numbers differ from one run to the next, and were not compared")
    elif data.get("draws_elsewhere"):
        parts.append("it draws random numbers at another point of the run, so that its numbers were not compared")
    if data.get("draws_again"):
        parts.append("what runs again draws other random numbers than the first time, so the losses are of two draws")
    for stopped in data.get("stopped_elsewhere", [])[:2]:
        parts.append(stopped)
    if data.get("not_compared"):
        where = "are none of the unpatched program's" if went_on else "come after the failure"
        parts.append(f"the steps of {listed(data['not_compared'])} {where} and could not be compared")
    if outcome.failure:
        parts.append(then_fails(outcome))
    return "; ".join(part for part in parts if part)


def told_lost(base: Trace, lost: list[str]) -> str:
    """Which parameters get nothing; only of those that a step of the original had a gradient for is it new."""
    had = {base.name(key) for _, key in base.used()}
    gone, never = [n for n in lost if n in had], [n for n in lost if n not in had]
    parts = [f"{folded(gone)} no longer {receive(gone)} any gradient"] if gone else []
    parts += [f"{folded(never)}, which a step is to use, {receive(never)} no gradient"] if never else []
    return " and ".join(parts)


def reached(trace: Trace, data: dict[str, Any], known: bool, ended: bool) -> str:
    """What the patched program trains, as one part of the sentence. ``ended``: what was to get no gradient any more
    gets none.
    """
    missed = data.get("never_reached", [])
    if known and trace.backwards and data.get("idle_stopped"):
        return "every parameter of which a step used a gradient still gets one"
    if known and trace.backwards:
        return f"every {'other ' if ended else ''}parameter that received gradient still does"
    if missed:
        return f"the change takes no gradient from anything; {folded(missed)} {receive(missed)} none at any step"
    if trace.steps:
        away = data.get("differentiated_away", [])
        but = f" but {folded(away)}, on which no derivative depends" if away else ""
        which = [" that requires grad"] if trace.frozen else []
        which += [" that a loss reaches"] if data.get("left_out") and not away else []
        of = " and".join(which)
        given = {key for step in trace.steps for key in step.each}
        zeros = sorted(trace.name(key) for key in given - trace.used_keys())
        only = f", {folded(zeros)} zeros alone" if zeros else ""
        idle = sum(1 for step in trace.steps if step.each and not step.gradients)
        if idle and not zeros:
            only = f", at {idle} of {len(trace.steps)} steps zeros alone"
        return f"every parameter of its optimizers{of} receives gradient{but}{only}"
    return "" if trace.optimizers else "as many leaves receive gradient as before"


def receive(names: list[str]) -> str:
    return "receives" if len(names) == 1 else "receive"


def listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")


# What a patched program's losses do when parameters move, beside what its steps are given (docs/gradients.md).

NO_STEPS = "no optimizer made the steps that were to be looked at"


@dataclass
class Measured:
    """``wrong`` speaks against the patch, ``agrees`` for it, each the end of a sentence; ``steps`` are those at which a
    gradient was that of the loss, ``why`` says why nothing was measured."""

    wrong: list[str] = field(default_factory=list)
    agrees: str = ""
    steps: list[str] = field(default_factory=list)
    why: str = ""


def measured(evidence: Evidence, spared: frozenset[str], cuts: bool = False) -> Measured:
    """From the evidence of a patched run. ``spared`` are parameters that the patch is to take gradient from; ``cuts``:
    it is to take a part out of the gradient of others."""
    told = Measured()
    steps: dict[str, list[int]] = {}
    for sign in (s for s in evidence.signs if s.kind == GRADIENTS):
        told.why = told.why or str(sign.facts.get("why", ""))
        for look in sign.facts.get("looks", ()):
            told.why = told.why or look["why"]
            told.wrong += _wrong(look, spared, cuts)
            if any(a["answer"] == "agrees" for a in look["answers"]):
                steps.setdefault(optimizer_of(evidence.optimizers, sign), []).append(look["step"])
    told.wrong = list(dict.fromkeys(told.wrong))
    told.steps = [f"step {listing([str(n) for n in sorted(set(ns))])} of {whose}" for whose, ns in steps.items()]
    if told.steps and not told.wrong:
        told.agrees = "its gradients were measured to be those of its losses"
    if not told.steps:
        told.why = told.why or NO_STEPS
    return told


def _wrong(look: dict[str, Any], spared: frozenset[str], cuts: bool) -> Iterable[str]:
    for answer in look["answers"]:
        kind, slope, given, taken = answer["answer"], answer["slope"], answer["gradient"], answer["taken"]
        whose, loss = folded(answer["parameters"]), f"the loss at {answer['file']}:{answer['line']}"
        if spared.issuperset(answer["parameters"]):
            continue
        if kind == "another" and slope == 0.0 and not look["own"]:
            yield f"{loss} does not move with {whose}, which {receive(answer['parameters'])} a gradient of older values"
        elif kind == "another" and not look["own"] and not look["within"]:
            yield f"{loss} has the slope {slope:.3g} along the gradient of {whose}, and {given:.3g} by that gradient"
        elif taken and not cuts:
            yield f"its cut makes the slope of {loss} along the gradient of {whose} {given:.3g}, which is {taken:.3g}"
        elif (kind == "missing" and look.get("cut_by_patch")) or (kind == "zero" and look.get("ends_in_patch")):
            none = "no gradient" if kind == "missing" else "zeros alone"
            yield f"{loss} depends on {whose}, which {receive(answer['parameters'])} {none} by its change"


# What trials have found, kept with the run: no patch is tried twice for one run.


FOLDER = "trials"
_VERSION = 1
MOST_BYTES = 16_000_000
"""Of one verdict, or of the patches put together from one."""


class Results:
    """The verdicts of one kept run, by the text of the patch and what was asked of it."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self.writable = (run / "run.json").is_file()
        """Only a run that graphdoc keeps gets a folder; beside a file of Evidence from elsewhere nothing is written."""

    def get(self, key: str, seconds: float, asked: bool = False) -> Verdict | None:
        """The verdict with this key; not one that was left open because fewer seconds were given then, nor, where the
        user asks for the trial, one that it was refused.
        """
        try:
            found = read_object(self.folder / f"{key}.json", MOST_BYTES)
            if found["version"] != _VERSION or (found["open"] and found["seconds"] < seconds):
                return None
            verified = found["verified"]
            if verified not in (True, False, None) or not isinstance(found["data"], dict):
                return None
            verdict = Verdict(verified, str(found["summary"]), found["data"])
            return None if asked and verdict.refused and not verdict.open else verdict
        except (Unreadable, KeyError, TypeError):
            return None

    def further(self, key: str) -> list[dict[str, Any]]:
        """The patches that were put together from the one with this key, as ``keep_further`` was given them."""
        try:
            found = read_object(self.folder / f"{key}.further.json", MOST_BYTES)
            told = found["patches"] if found["version"] == _VERSION else []
            return [one for one in told if _is_patch(one)]
        except (Unreadable, KeyError, TypeError):
            return []

    def keep_further(self, key: str, patches: Sequence[Mapping[str, Any]]) -> None:
        """Keep what was put together from a patch; where that is not possible, it is done again the next time."""
        self._write(f"{key}.further.json", {"version": _VERSION, "patches": list(patches)})

    def keep(self, key: str, verdict: Verdict, seconds: float) -> None:
        """Keep a verdict; where that is not possible, the patch is tried again the next time."""
        document = {
            "version": _VERSION,
            "verified": verdict.verified,
            "summary": verdict.summary,
            "data": verdict.data,
            "open": verdict.open,
            "seconds": seconds,
        }
        self._write(f"{key}.json", document)

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        if not self.writable:
            return
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            write_private(self.folder / name, (json.dumps(document, indent=1) + "\n").encode())
        except OSError:
            pass


def _is_patch(one: Any) -> bool:
    named = isinstance(one, dict) and all(isinstance(one.get(k), str) for k in ("id", "title", "note", "safety"))
    return named and all(isinstance(one.get(k), dict) for k in ("link", "texts"))


def key_of(texts: Mapping[str, str], safe: bool, same_numbers: bool) -> str:
    """The key of a patch: its whole text and what it is measured by."""
    asked = json.dumps([sorted(texts.items()), safe, same_numbers])
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]
