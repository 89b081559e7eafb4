"""Runs the patched program, and the original to compare with, without touching a file of the user's; how each ended."""

from __future__ import annotations

import difflib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from graphdoc.capture.trials.trace_end import ENOUGH
from graphdoc.documents import decode, read_source
from graphdoc.evidence import GRADIENTS, Evidence, Frame, Sign
from graphdoc.fixes.kinds import NO_TRAITS, Traits
from graphdoc.launch import Ended
from graphdoc.launch.isolation import Forks, Stop, launch_apart
from graphdoc.launch.isolation.stopping import Beside, has_accelerator, has_room
from graphdoc.launch.keep import Kept
from graphdoc.launch.scratch import make_scratch, remove_scratch
from graphdoc.line_changes import LineMatcher
from graphdoc.messages.recognise import recognise_exception
from graphdoc.messages.traceback_lines import raised_in
from graphdoc.probe import question
from graphdoc.processes import Arriving, are_complete, read_evidence, read_processes, same_failure
from graphdoc.program.library_calls import checkpoint_fails
from graphdoc.program.observed import program_of
from graphdoc.program.spans import innermost_user
from graphdoc.second_run import take_over
from graphdoc.standing import Standing
from graphdoc.verify import failing_again, traces
from graphdoc.verify.compared import NO_STEPS, TOLERANCE, Baseline, Measured, Outcome, Verdict, measured
from graphdoc.verify.failing_again import told_anew
from graphdoc.verify.verdict import behind_old_parts, crashed, judge, without_original

# Which line of the original a line of the patched text is.


def back_to_original(trace: traces.Trace, old: Mapping[str, str], new: Mapping[str, str], cwd: str) -> None:
    """Give every call of a patched run's trace the place that its line had in the original. Files by absolute path."""
    back = original_line(old, new, cwd)
    for entry in trace.order:
        if isinstance(entry, traces.Call):
            entry.place = back(entry.place)
            entry.shares = frozenset(back(place) for place in entry.shares)


def original_line(old: Mapping[str, str], new: Mapping[str, str], cwd: str) -> Callable[[traces.Line], traces.Line]:
    """A function that tells for a line of the patched text which line of the original it is; a new one is negative."""
    tables = {path: _table(old[path], text) for path, text in new.items() if path in old}

    def back(place: traces.Line) -> traces.Line:
        table = tables.get(os.path.realpath(os.path.join(cwd, place[0])))
        return (place[0], table.get(place[1], -place[1])) if table is not None else place

    return back


def _table(old: str, new: str) -> dict[int, int]:
    """Patched line to original line. A line that is new altogether has none (its number is told negative)."""
    found: dict[int, int] = {}
    matcher = LineMatcher(old.splitlines(), new.splitlines())
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found.update((j + 1, i1 + (j - j1) + 1) for j in range(j1, j2))
        elif tag == "replace":
            before, after = old.splitlines()[i1:i2], new.splitlines()[j1:j2]
            for j, text in enumerate(after):
                i = _likest(text, before)
                if i is not None:
                    found[j1 + j + 1] = i1 + i + 1
    return found


def _likest(text: str, among: list[str]) -> int | None:
    """The line of a changed block that this one was made from, if one is like it."""
    ratios = [difflib.SequenceMatcher(None, text.strip(), other.strip()).ratio() for other in among]
    best = max(range(len(among)), key=ratios.__getitem__)
    return best if ratios[best] >= 0.5 else None


# What ended a patched run: its own failure, the original's, another one, or nothing.

_CLUMSY = ("NameError", "UnboundLocalError", "AttributeError", "TypeError", "SyntaxError", "IndentationError")
_UNDEFINED = re.compile(r"^(?:NameError|UnboundLocalError): .*?'(\w+)'")
"""What names the variable that has no value; of this alone it depends whether a change is to blame."""
_OUTSIDE = ("OSError", "PermissionError", "ConnectionError", "ConnectionRefusedError", "gaierror", "URLError")
_PROCESSES = ("ProcessLookupError", "NoSuchProcess")


def outcome_of(
    original: Evidence,
    failed: Evidence | None,
    ended: Ended,
    before: Mapping[str, str],
    texts: Mapping[str, str],
    cwd: str,
    traits: Traits = NO_TRAITS,
    signs: Sequence[Sign] | None = None,
) -> Outcome:
    """What ended the patched program. An autograd error that it caught counts as well: the original has none.

    ``failed`` is the evidence that the patched run left, ``before`` and ``texts`` are the changed files before and
    after the change, ``traits`` what the fix says of itself, ``signs`` those of the original's that it is to end.
    """
    outcome = Outcome(ended.exit_status, ended.timed_out, ended.seconds, stopped=ended.stopped, traits=traits)
    outcome.refused, outcome.printed = ended.refused, last_line(ended.printed)
    # Beside a crash, or what a bound is to keep finite, what is seen is a fault of its own.
    meant = original.went_on and not traits.keeps_finite
    own = original.signs if signs is None else [*signs]
    outcome.still = failed is not None and meant and failing_again.same_signs(own, failed.signs)
    if failed is not None:
        part = failing_again.left_in_part(own, failed.signs) if meant else ""
        outcome.left = part or failing_again.left_over(original.signs, failed.signs)
    if failed is None or failed.raised is None or failed.went_on:
        return outcome
    raised = failed.raised
    back = original_line(before, texts, cwd)
    outcome.same = failing_again.fails_alike(original, failed, back)
    match = recognise_exception(raised.type, raised.message)
    outcome.autograd = match is not None and match.kind == "error"
    # A run that was ended behind the failure had dealt with what was raised in it.
    if (ended.stopped or not raised.uncaught) and ended.exit_status == 0 and not outcome.same:
        return outcome
    outcome.failure = f"{raised.type}: {raised.message}"
    outcome.next = failed if outcome.autograd and not outcome.same else None
    outcome.elsewhere = failing_again.fails_elsewhere(original, failed, back)
    outcome.passed = not outcome.same and 0 <= original.failing_event < failed.failing_event
    at = failing_again.failing_place(failed) if outcome.autograd else innermost_user(raised.stack)
    outcome.place = f" at {at.file}:{at.line}" if at is not None else ""
    outcome.later = at is not None and _is_anothers(outcome, at, original, failed, before, texts, cwd)
    outcome.clumsy = raised.type in _CLUMSY and not outcome.later
    outcome.outside = _outside(raised.type.rpartition(".")[2], ended)
    return outcome


def _outside(name: str, ended: Ended) -> str:
    if name in _PROCESSES:
        return " (a trial reaches no other processes)"
    return " (a trial has no network, and what it writes goes nowhere)" if name in _OUTSIDE and not ended.open else ""


def _is_anothers(
    outcome: Outcome,
    at: Frame,
    original: Evidence,
    failed: Evidence,
    before: Mapping[str, str],
    texts: Mapping[str, str],
    cwd: str,
) -> bool:
    """Whether a plain error behind the failure has nothing to do with what was changed.

    It is raised ``at`` a statement of the program's own, elsewhere, and no value from a changed statement gets there.
    """
    if outcome.same or outcome.autograd or not outcome.elsewhere:
        return False
    name = _UNDEFINED.search(outcome.failure)
    if name is not None:
        return not failing_again.unbinds(before, texts, name[1], at, cwd)
    others = {**failed.sources, **original.sources}
    paths = {os.path.realpath(os.path.join(cwd, name)): text for name, text in others.items()}
    return not failing_again.leads_to(before, texts, paths, at, cwd)


def last_line(printed: str) -> str:
    """The last one, or that of an exception which says a few more."""
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    return next(filter(raised_in, lines[:-6:-1]), lines[-1] if lines else "").strip()[:300]


# Whether a program does the same twice: numbers of two runs can be compared only then.

UNSTEADY = "the program's numbers differ from one run to the next"


def repeats(one: traces.Trace, other: traces.Trace, failing: int, tolerance: float) -> bool:
    """Whether two runs of the unchanged program made the same calls with the same numbers before the point of failure.

    A run that was stopped sooner is compared as far as it went. True also where neither made any: nothing speaks
    against it. ``tolerance`` is the relative difference of losses and gradients up to which they count as the same.
    """
    pairs = zip(_before(one, failing), _before(other, failing), strict=False)
    return all(a.place == b.place and _apart(a, b) <= tolerance for a, b in pairs)


def _before(trace: traces.Trace, failing: int) -> list[traces.Call]:
    return [c for c in trace.backwards if c.index < failing or failing < 0]


def _apart(a: traces.Call, b: traces.Call) -> float:
    loss = traces.difference({"": a.value}, {"": b.value}) if a.value is not None and b.value is not None else 0.0
    gained = traces.difference(a.gained, b.gained) if a.measured and b.measured else 0.0
    return max(loss, gained)


# Runs the patched program, and the original to compare with, without touching a file of the user's.

SHORTEST = 20.0
"""Seconds that one run has at least, if the caller's time allows."""
MEASURE = "probe:whatif:trial"
LEAST = 1.0
"""Seconds below which no run is started any more."""

_UNCHANGED = "running the program unchanged, to compare"

MADE_WITH_OPTIMIZERS = "torch._dynamo"
"""What torch imports when the first optimizer is made (torch/_compile.py): half as long again as torch itself takes."""


class Trial:
    """Tries the fixes of one failed run; the original is run again at most three times for all of
    them, the first time beside the first fix.

    Use as a context manager: what the runs leave is thrown away at its end. They share the import of torch where that
    makes no difference (see ``graphdoc.launch.isolation.forks``). ``stop`` ends a run that is going on;
    ``asked`` says that the user wants the trial even where it cannot be kept from his files, ``patience`` is how long
    all of it may wait for a processor besides.

    Raises:
        CannotIsolate, Interrupted: from the methods that run something. See ``graphdoc.launch.isolation``.
    """

    def __init__(
        self, kept: Kept, evidence: Evidence, stop: Stop | None = None, asked: bool = False, patience: float = 0.0
    ) -> None:
        self.kept = kept
        self.evidence = evidence
        self.stop = stop or Stop()
        self.asked = asked
        self.failing = traces.failing_index(evidence)
        self.point = traces.point_of_failure(evidence)
        self.limit = max(SHORTEST, 4 * kept.seconds + 10)
        self._patience = patience
        self.waited = 0.0
        """Seconds for which its runs had no processor: they are not counted."""
        self._until = 0.0
        self._baseline: Baseline | None = None
        self._why_none, self._is_late, self._was_killed = "", False, False
        self._seen: list[Evidence] = []  # of the unpatched program, made to go on
        self._looked = False
        self._asked_twice = False
        self._folders: list[Path] = []
        # Whether that import asks for an accelerator, after which nothing could be shared, was seen without one alone.
        later = [MADE_WITH_OPTIMIZERS] if evidence.optimizers and not has_accelerator() else []
        self._forks = Forks(later)
        self._beside = Beside(self.stop)
        self._standing: object = ""

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beside.end()
        self._forks.close()
        for folder in self._folders:
            remove_scratch(folder)

    def of(
        self,
        texts: Mapping[str, str],
        safe: bool,
        seconds: float,
        traits: Traits = NO_TRAITS,
        signs: Sequence[Sign] | None = None,
    ) -> Verdict:
        """Try one fix: ``texts`` is the new text of each changed file by absolute path.

        ``safe`` asks for equal gradients as well, and ``traits`` say what else the fix claims: one that keeps the
        numbers has to give an equal loss, one that keeps the loss an equal first one where the original went on, and
        one ``of_caller`` that gives others is judged as one that chooses them. ``seconds`` is the time that is left for
        it, by the clock: for its own run and for those of the original that it is compared with. ``signs`` are those
        that it is to end, of a run that went on; all of them where that is not known.
        """
        self._until = time.monotonic() + seconds
        folder, ended = self._run("verify", dict(texts), self.limit, started=self._begin_baseline)
        if self._beside.is_on and _was_killed(ended):  # for want of memory, perhaps: once more, alone
            self._beside.wait()
            folder, ended = self._run("verify", dict(texts), self.limit)
        failed = read_processes(self.kept, ended.evidence).first
        cuts = self.evidence.probe if not self._unfinite else ""
        if failed is not None and cuts and question(failed) == cuts:
            failed = self._looked_closer(failed, texts)  # one of several cuts may be gone
        before = self._original_texts(texts)
        outcome = outcome_of(self.evidence, failed, ended, before, texts, self._cwd, traits, signs)
        verdict = self._judged(outcome, traces.read_trace(folder), texts, safe, traits.keeps_numbers)
        if traits.of_caller and verdict.verified is None and not verdict.equal:
            gap = verdict.data["max_relative_difference"]
            verdict = self._judged(outcome, traces.read_trace(folder), texts, False, False)
            verdict.data["max_relative_difference"] = gap
        if verdict.verified and failed is not None:
            self._diagnose(verdict, failed, texts, not (outcome.stopped or outcome.timed_out))
        if verdict.verified:
            self._measure(verdict, texts, traits)
        verdict.failed, verdict.elsewhere = self._looked_closer(outcome.next, texts), outcome.elsewhere
        if self._unfinite and verdict.failed is None and (outcome.still or outcome.left or verdict.unfinite):
            verdict.failed = self._unfinite_elsewhere(texts)
            verdict.elsewhere = False
        if not verdict.verified and not verdict.refused and outcome.printed:
            verdict.data["printed"] = outcome.printed
        return verdict

    def how_far(self) -> str:
        """Where what is waited for stands: its step and the seconds left, or what it is run for beside the fix."""
        return str(self._standing)

    def _judged(
        self, outcome: Outcome, trace: traces.Trace | None, texts: Mapping[str, str], safe: bool, same_numbers: bool
    ) -> Verdict:
        early = crashed(outcome, trace)
        if early is not None or trace is None:
            return early or Verdict(None, "the changed program left no trace to compare")
        back_to_original(trace, self._original_texts(texts), texts, self._cwd)
        baseline = self.baseline()
        if baseline is None and outcome.timed_out and not trace.last_index >= self.failing >= 0:
            told = f"the failing call was not reached within {outcome.seconds:.0f} s"
            return Verdict(None, told, {"passed_crash": None, "seconds": round(outcome.seconds, 2), "open": True})
        if baseline is None:
            return without_original(outcome, trace, self._why_none, self._is_late)
        verdict = judge(outcome, trace, baseline, safe, same_numbers)
        if verdict.differs and not self._is_steady():
            return judge(outcome, trace, self._baseline or baseline, safe, same_numbers)
        return verdict

    def _diagnose(self, verdict: Verdict, seen: Evidence, texts: Mapping[str, str], ended: bool) -> None:
        """What `graphdoc run` would tell of the patched program, and not of the unpatched one, speaks against it."""
        names = {name: texts[path] for name in seen.sources if (path := self._path(name)) in texts}
        back = original_line(self._original_texts(texts), texts, self._cwd)
        found = told_anew(seen, [self.evidence, *self._seen], names, back, ended)
        if found:
            doubts = [f"it has another fault: {one.finding.title} ({one.cause.code})" for one in found]
            verdict.verified, verdict.data["doubts"] = None, doubts
            verdict.summary = f"{self._gone}, but {doubts[0]}"

    def _measure(self, verdict: Verdict, texts: Mapping[str, str], traits: Traits) -> None:
        """Measure whether the gradients by which the patched program steps are those of its losses. What speaks against
        that speaks against the patch; that nothing could be measured is said."""
        told = Measured(why="no time was left for it")
        if self._rest >= LEAST:
            steps = max((o.steps for o in self.evidence.optimizers), default=0) if not self.evidence.went_on else 0
            _, ended = self._run(f"{MEASURE}:{steps}", dict(texts), self.limit, whole=True)
            signs = (read_evidence(self.kept, file) for file in ended.evidence)
            seen = next((e for e in signs if any(s.kind == GRADIENTS for s in e.signs)), None)
            told.why = NO_STEPS
            if seen is not None:
                spared = self._baseline.spared if self._baseline is not None else frozenset()
                told = measured(seen, spared, traits.constant)
        if told.wrong:
            verdict.verified, verdict.data["doubts"] = None, told.wrong
            verdict.summary = f"{self._gone}, but {told.wrong[0]}"
        else:
            verdict.summary += f"; {told.agrees or f'its gradients were not measured: {told.why}'}"
        verdict.data["measured"] = told.wrong or told.steps

    def _looked_closer(self, failed: Evidence | None, texts: Mapping[str, str]) -> Evidence | None:
        """The next failure with what a slower look at the patched program tells of it, where that is asked for."""
        mode = question(failed) if failed is not None and self._rest >= LEAST else ""
        if failed is None or not mode:
            return failed
        _, ended = self._run(mode, dict(texts), self.limit, whole=True)
        second = read_processes(self.kept, ended.evidence).first
        if second is None or not same_failure(failed, second):
            return failed
        return take_over(failed, second, mode)

    @property
    def _unfinite(self) -> bool:
        """Whether the original went on with values that are not finite, and a second run saw where they began."""
        return self.evidence.went_on and self.evidence.probe.startswith("probe:nonfinite")

    def _unfinite_elsewhere(self, texts: Mapping[str, str]) -> Evidence | None:
        """What a slower look at the patched program tells of values that are not finite still, where the first of them
        begins in another place than that of the original did."""
        if self._rest < LEAST:
            return None
        _, ended = self._run(self.evidence.probe, dict(texts), self.limit, whole=True)
        second = read_processes(self.kept, ended.evidence).first
        if second is None:
            return None
        back = original_line(self._original_texts(texts), texts, self._cwd)
        was = failing_again.first_unfinite(self.evidence, lambda line: line)
        now = failing_again.first_unfinite(second, back)
        second.probe = second.probe or self.evidence.probe
        return second if now is not None and now != was else None

    @property
    def _rest(self) -> float:
        return self._until - time.monotonic()

    def _is_steady(self) -> bool:
        """Whether the original has the same numbers in another run; asked once, where numbers were found to differ.

        Where it has not, the baseline is none to compare numbers with from here on.
        """
        base = self._baseline
        if base is None or self._asked_twice or self._rest < LEAST or self.evidence.went_on:
            return base is None or base.steady
        self._asked_twice = True
        folder, _ = self._run("verify", None, self.limit)
        again = traces.read_trace(folder)
        if again is None or repeats(base.trace, again, self.failing, TOLERANCE * 10):
            return True
        self._baseline = replace(base, no_reference=UNSTEADY, steady=False)
        return False

    def baseline(self) -> Baseline | None:
        """The original's trace: made to go on behind the failure where that is possible, else up to it."""
        if self._rest < LEAST and not self._looked:
            self._why_none, self._is_late = "no time was left for it", True
        elif not self._looked:
            self._looked = True
            self._baseline = self._make_baseline()
        if self._beside.is_on:
            self._standing = _UNCHANGED
            self._beside.wait()
            if self._baseline is None and self._was_killed:
                self._baseline = self._make_baseline()
        return self._baseline

    def _begin_baseline(self) -> None:
        """Make it beside a run that goes on."""
        if not self._looked and self._rest >= LEAST and has_room():
            self._looked = True
            self._beside.begin(self._note_baseline)

    def _note_baseline(self) -> None:
        self._baseline = self._make_baseline()

    def _make_baseline(self) -> Baseline | None:
        program = program_of(self.evidence)
        expected, reuse = traces.expected_names(program), program.reuse
        raised = self.evidence.raised
        if raised is None or self.evidence.went_on:
            return self._plain_baseline(expected)
        match = recognise_exception(raised.type, raised.message)
        group = match.group if match is not None else ""
        sound = group != "distributed"
        reached = traces.reached_from(self.evidence)
        # Copying what is about to be overwritten costs a multiple of the time.
        views = traces.refused_views(self.evidence.raised)
        mode = "verify:reference:views" if views else "verify:reference"
        if checkpoint_fails(program):
            mode += ":straight"
        folder, ended = self._run(mode, None, 1.5 * self.limit)
        self._seen += [e for e in [read_processes(self.kept, ended.evidence).first] if e is not None]
        trace = traces.read_trace(folder)
        if trace is not None and trace.is_past(self.failing, views):
            stepped = group == "second-backward" and traces.stepped_between(trace, self._freed_by(), self.failing)
            why = "an optimizer stepped between the two backward calls, so their gradients are not to be equal"
            own = traces.own_graph(self.evidence)
            once = traces.behind_what_was_made_once(reuse)
            no_reference = why if stepped else ""
            old = behind_old_parts(self.evidence, reuse)
            return Baseline(
                trace,
                self.failing,
                no_reference,
                expected,
                sound,
                own,
                once=once,
                reached_from=reached,
                old_parts=old,
                late=ended.timed_out,
            )
        if self._rest >= LEAST:
            folder, ended = self._run("verify", None, self.limit)
            again = traces.read_trace(folder)
            if again is not None and (trace is None or len(again.order) >= len(trace.order)):
                trace = again
        once = traces.behind_what_was_made_once(reuse)
        if trace is None:
            self._note_none(ended)
            return None
        late = ended.timed_out
        return Baseline(trace, self.failing, expected=expected, sound=sound, once=once, reached_from=reached, late=late)

    def _note_none(self, ended: Ended) -> None:
        """Note why there is no trace of the original."""
        self._is_late, self._was_killed = ended.timed_out, _was_killed(ended)
        last = last_line(ended.printed)
        if ended.refused:
            self._why_none = f"it {ended.refused}"
        elif ended.timed_out:
            self._why_none = f"it came to no backward call within {ended.seconds:.0f} s"
        else:
            said = f", and the last line that it printed was: {last}" if last else ""
            self._why_none = f"it ended with exit status {ended.exit_status} and left no trace{said}"

    def _plain_baseline(self, expected: frozenset[str]) -> Baseline | None:
        """The trace of a program that went on by itself: what it did was wrong from its first call on."""
        folder, ended = self._run("verify", None, self.limit)
        trace = traces.read_trace(folder)
        spared = frozenset(name for sign in self.evidence.signs for name in sign.facts.get("stops", ()))
        piling = ("never-cleared", "left-over")
        piled = frozenset(name for sign in self.evidence.signs if sign.kind in piling for name in sign.parameters)
        if trace is None:
            self._note_none(ended)
            return None
        told = {n for sign in self.evidence.signs for n in (*sign.parameters, *sign.facts.get("behind", ()))}
        meant = spared | told | {name for cut in self.evidence.cuts for name in cut.behind}
        return Baseline(
            trace,
            expected=expected - spared,
            sound=False,
            spared=spared,
            piled=piled,
            meant=meant,
            covered=traces.covered_places(self.evidence.signs),
            unfinite=any(sign.kind == failing_again.NONFINITE and not sign.weak for sign in self.evidence.signs),
            gone="what was found is gone",
        )

    def _freed_by(self) -> int:
        """The journal index of the call that released what the failing one needed; -1 where that is not known."""
        told = self.evidence.extras.get("freed_by")
        return told if isinstance(told, int) else -1

    def _run(
        self,
        mode: str,
        patches: dict[str, str] | None,
        limit: float,
        whole: bool = False,
        started: Callable[[], None] | None = None,
    ) -> tuple[Path, Ended]:
        """``whole``: the mode as it is, of a run that knows no failing call. One that looks for a value that is not
        finite has told all with its evidence. ``started`` is called when it runs, where another may run beside it."""
        out = make_scratch()
        self._folders.append(out)
        request = replace(
            self.kept.request,
            cwd=str(self.kept.cwd),
            mode=mode if whole else f"{mode}:{self.failing}:{self.point}",
            patches=patches,
            timeout=max(LEAST, min(limit, self._rest)),
            patience=self._patience - self.waited,
            one_thread=mode.startswith(MEASURE),
        )
        if threading.current_thread() is threading.main_thread():
            self._standing = self._standing_in(out, mode, patches)
        last, arriving = "evidence-*.json" if mode.startswith("probe:nonfinite") else ENOUGH, Arriving(out)

        def enough() -> bool:
            if mode.startswith(MEASURE):
                return any(are_complete(evidence.signs) for evidence in arriving)
            return next(out.glob(last), None) is not None

        ended = launch_apart(
            request, out, self._beside, enough=enough, asked=self.asked, forks=self._forks, started=started
        )
        if threading.current_thread() is threading.main_thread():  # one beside it waited at the same time
            self.waited += ended.waited
            self._until += ended.waited
        return out, ended

    def _standing_in(self, out: Path, mode: str, patches: Mapping[str, str] | None) -> Standing:
        """How far a run of this mode has come, and what it is for where that is not the fix itself."""
        if mode.startswith("probe"):  # where it ends, nothing tells before
            what = "measuring its gradients" if mode.startswith(MEASURE) else "looking closer"
            return Standing(out, 0, -1, 0.0, what)
        steps = 0 if self.evidence.went_on else max((o.steps for o in self.evidence.optimizers), default=0)
        return Standing(out, steps, self.point, self.kept.seconds, _UNCHANGED if patches is None else "")

    @property
    def _gone(self) -> str:
        return self._baseline.gone if self._baseline is not None else Baseline.gone

    @property
    def _cwd(self) -> str:
        return self.evidence.process.cwd or str(self.kept.cwd)

    def _path(self, name: str) -> str:
        return os.path.realpath(os.path.join(self._cwd, name))

    def _original_texts(self, texts: Mapping[str, str]) -> dict[str, str]:
        own = {self._path(f): t for f, t in self.evidence.sources.items()}
        found: dict[str, str] = {}
        for path in texts:
            data = read_source(path) if path not in own else None  # a file that only a later failure has named
            if path in own or data is not None:
                found[path] = own[path] if data is None else decode(data)
        return found


def _was_killed(ended: Ended) -> bool:
    return ended.signal == signal.SIGKILL and not ended.timed_out
