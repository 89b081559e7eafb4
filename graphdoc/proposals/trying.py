"""Has the candidates tried, best first, as long as the user lets it, and notes on each what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphdoc.diagnose import findings_for
from graphdoc.errors import Interrupted
from graphdoc.evidence import Evidence, Sign
from graphdoc.fixes.kinds import NO_TRAITS, Traits, safety_of, traits_of
from graphdoc.launch.isolation import CannotIsolate, CannotStart, Stop, check_ways, stoppable
from graphdoc.launch.keep import Kept
from graphdoc.proposals.composing import told_of
from graphdoc.redaction import redact
from graphdoc.verify.compared import Results, Verdict, key_of
from graphdoc.verify.trial import LEAST, Trial

if TYPE_CHECKING:
    from graphdoc.model import Fix
    from graphdoc.proposals import Candidate
    from graphdoc.proposals.composing import Composer

SECONDS = 60.0
"""Seconds that all trials of one report may take together, if nothing else is asked for: as long as a person waits."""


@dataclass
class Trying:
    """How a user wants fixes to be tried, and what became of it.

    ``seconds`` for all of them together, and ``longer`` at most where they wait for a processor. ``asked``: also where
    nothing keeps the program from the user's files. ``announce`` is told in one line what will be run, before the first
    trial; ``progress`` which fix is tried, with what tells how far its trial has come, and an empty line at the end.
    ``only`` is the one fix to be tried, where the user has chosen it. ``interrupted`` is the number of the signal that
    ended it, 0 where none did.
    """

    seconds: float = SECONDS
    asked: bool = False
    announce: Callable[[str], None] | None = None
    progress: Callable[..., None] | None = None
    only: Fix | None = None
    interrupted: int = 0
    longer: float = 0.0

    def is_meant(self, fix: Fix) -> bool:
        """Whether this fix is to be tried; its safety is another one afterwards."""
        return self.only is None or (fix.title, fix.diff) == (self.only.title, self.only.diff)


Further = list[tuple["Candidate", "Candidate"]]
"""A patch that was put together from another and a remedy for the failure that that one met, beside that other."""


def recall(
    kept: Kept,
    candidates: Sequence[Candidate],
    composer: Composer | None = None,
    seconds: float = 0.0,
    asked: bool = False,
) -> Further:
    """Note what earlier trials of this run have found, if they were the user's own. Nothing is run.

    With ``seconds``, not what was left open for want of so many; with ``asked``, not what was refused a trial.
    """
    if not kept.trusted:
        return []
    results = Results(kept.folder)
    further: Further = []
    waiting = _triable(candidates)
    while waiting:
        candidate = waiting.pop(0)
        verdict = results.get(_key(candidate), seconds, asked)
        if verdict is None:
            continue
        _note(candidate, verdict)
        if not candidate.settled and composer is not None:
            made = composer.restored(candidate, results.further(_key(candidate)))
            further += [(candidate, one) for one in made]
            waiting += made
    return further


def try_out(
    kept: Kept, evidence: Evidence, candidates: Sequence[Candidate], trying: Trying, composer: Composer | None = None
) -> Further:
    """Try candidates in their order until one passes or the time is used up; what is known already is not tried. One
    that passes with other random numbers stands behind one that passes without, so that is looked for.

    One that ends the failure, and lets the program run into another, is put together with the remedies of that other;
    these are tried behind the plain ones.
    """
    further = recall(kept, candidates, composer, trying.seconds, trying.asked)
    tried = [c for c in (*_triable(candidates), *(one for _, one in further)) if trying.is_meant(c.fix)]
    waiting: list[Candidate] = []
    for candidate in tried:
        if candidate.settled:
            break
        if not candidate.fix.verification:
            waiting.append(candidate)
    if not waiting or any(c.settled for c in tried):
        return _told(further)
    if kept.seconds >= trying.seconds:
        took, may = f"{kept.seconds:.0f} s", f"{trying.seconds:.0f} s (--verify-time)"
        _leave(waiting, f"not reached: the run took {took}, and trials may take {may}")
        return further
    try:
        with stoppable() as stop:
            if not trying.asked:
                check_ways(kept.request)
            if trying.announce is not None:
                trying.announce(_announcement(kept, len(tried), trying.seconds + trying.longer))
            _try(kept, evidence, _Queue(tried, waiting, further, composer), trying, stop)
        stop.check()
    except CannotStart as e:
        _leave(tried, str(e))
    except CannotIsolate as e:
        _leave(tried, f"{e} (--verify runs it all the same)")
    except Interrupted as e:
        trying.interrupted = e.number
        _leave(tried, "interrupted")
    finally:
        if trying.progress is not None:
            trying.progress("")
    return _told(further)


def _told(further: Further) -> Further:
    """Without those that were put together and never tried."""
    return [
        (parent, one)
        for parent, one in further
        if one.settled or one.fix.verification.get("tried", one.fix.verification)
    ]


@dataclass
class _Queue:
    """What is to be tried. ``waiting`` grows while it is: patches that were put together come last."""

    tried: list[Candidate]
    waiting: list[Candidate]
    further: Further
    composer: Composer | None

    def go_on(self, results: Results, parent: Candidate, failed: Evidence, elsewhere: bool) -> None:
        """Put the patch together with remedies of the failure that it met. Where that came from another call it is a
        fault of its own, which no other remedy of the first one mends: then the best goes first."""
        if self.composer is None:
            return
        made = self.composer.further(parent, failed)
        known = [c.texts for c in self.tried]
        made = [c for c in made if c.texts not in known]
        if made:
            results.keep_further(_key(parent), [told_of(c, self.composer.digests) for c in made])
            self.further += [(parent, c) for c in made]
            self.tried += made
            self.waiting[:] = [*made[:1], *self.waiting, *made[1:]] if elsewhere else [*self.waiting, *made]

    def pop(self, late: bool) -> Candidate:
        """The next one; where half of the time is gone, a patch that was put together comes before a plain one."""
        chained = next((c for c in self.waiting if c.chain), None) if late else None
        candidate = chained or self.waiting[0]
        self.waiting[:] = [c for c in self.waiting if c is not candidate]
        return candidate


def _announcement(kept: Kept, count: int, seconds: float) -> str:
    what = "the fix" if count == 1 else "the fixes"
    return (
        f"running {kept.request.command[0]} again to try {what}, for at most {seconds:.0f} s in all "
        "(--verify-time; --no-verify prevents it)"
    )


def _try(kept: Kept, evidence: Evidence, queue: _Queue, trying: Trying, stop: Stop) -> None:
    results = Results(kept.folder)
    told: dict[tuple[str, str], list[Sign]] = {}
    deadline = time.monotonic() + trying.seconds
    with Trial(kept, evidence, stop, trying.asked, trying.longer) as trial:
        while queue.waiting:
            rest = deadline + trial.waited - time.monotonic()
            if rest < LEAST:
                why = f"the {trying.seconds:.0f} s of --verify-time were over"
                for candidate in queue.waiting:
                    unreached = Verdict(None, f"not tried: {why}", {"tried": False, "open": True})
                    results.keep(_key(candidate), unreached, trying.seconds)
                _leave(queue.waiting, why)
                return
            candidate = queue.pop(rest < trying.seconds / 2)
            if trying.progress is not None:
                number = next(i for i, c in enumerate(queue.tried) if c is candidate)
                words = f"trying fix {number + 1} of {len(queue.tried)}: {candidate.fix.title}"
                trying.progress(words, trial.how_far)
            safe = _claimed(candidate) == "safe"
            diagnosis = candidate.diagnosis
            of = (diagnosis.code, diagnosis.title) if diagnosis is not None else ("", "")
            if of not in told:
                told[of] = _told_by(evidence, of)
            verdict = trial.of(candidate.texts, safe, rest, _traits(candidate), told[of])
            results.keep(_key(candidate), verdict, trying.seconds)
            _note(candidate, verdict)
            if candidate.settled:
                return
            if verdict.failed is not None:
                queue.go_on(results, candidate, verdict.failed, verdict.elsewhere)


def _told_by(evidence: Evidence, of: tuple[str, str]) -> list[Sign]:
    """The signs of a run that went on without which the diagnosis of this code and title would not be told, and those
    of the same parameters; all of them where that does not tell. The others are of faults of their own, which stay as
    they are."""
    if not any(of) or not evidence.went_on or len(evidence.signs) < 2:
        return evidence.signs
    own: list[Sign] = []
    for sign in evidence.signs:
        found, _ = findings_for(replace(evidence, signs=[s for s in evidence.signs if s is not sign]))
        if not any((f.cause.code, f.finding.title) == of for f in found):
            own.append(sign)
    whose = {name for sign in own for name in sign.parameters}
    return [s for s in evidence.signs if s in own or whose & {*s.parameters}] if own else evidence.signs


def _triable(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [c for c in candidates if c.texts and c.fix.is_complete]


def _traits(candidate: Candidate) -> Traits:
    remedy = candidate.remedy
    return traits_of(remedy.kind, remedy.args) if remedy is not None else NO_TRAITS


def _key(candidate: Candidate) -> str:
    return key_of(candidate.texts, _claimed(candidate) == "safe", _traits(candidate).keeps_numbers)


def _claimed(candidate: Candidate) -> str:
    """How safe it is by its kind; what it may be called depends on what is measured."""
    return candidate.remedy.safety if candidate.remedy is not None else candidate.fix.safety


def _is_safe(candidate: Candidate, verdict: Verdict) -> bool:
    """Whether one that is safe by its kind is so after its trial."""
    untold = verdict.unmeasured or verdict.without_reference
    measured = candidate.fix.safety == "safe" or "max_relative_difference" in verdict.data
    if candidate.remedy is None:
        return verdict.equal and not untold
    return verdict.equal and safety_of(candidate.remedy, measured and not untold) == "safe"


def _note(candidate: Candidate, verdict: Verdict) -> None:
    told = {name: redact(value) if name == "printed" else value for name, value in verdict.to_json().items()}
    if candidate.chain:
        told["chain"] = [dict(link) for link in candidate.chain]
    verified = verdict.verified
    if verified and candidate.remedy is not None and candidate.remedy.open:
        verified, told["summary"] = None, f"{told['summary']}; but {candidate.remedy.open}"
    fix = replace(candidate.fix, verified=verified, verification=told)
    if _claimed(candidate) == "safe" and not _is_safe(candidate, verdict):
        # Called safe, and not measured to be: it must not be applied without the user's leave.
        fix = replace(fix, safety="unsafe", verification={**told, "called": "safe"})
    elif _claimed(candidate) == "safe":
        fix = replace(fix, safety="safe", called="")
    candidate.fix = fix
    candidate.settled = (bool(verdict.verified) or verdict.unmeasured) and not verdict.draws_again


def _leave(waiting: Sequence[Candidate], why: str) -> None:
    """Note on those that have not been tried why that is."""
    for candidate in waiting:
        if not candidate.fix.verification:
            candidate.fix = replace(candidate.fix, verification={"tried": False, "summary": f"not tried: {why}"})
