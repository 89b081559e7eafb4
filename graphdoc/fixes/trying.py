"""Has the candidates tried, best first, as long as the user lets it, and notes on each what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphdoc.evidence import Evidence
from graphdoc.fixes.kinds import keeps_numbers
from graphdoc.launch.isolation import CannotIsolate, Interrupted, Stop, stoppable
from graphdoc.launch.keep import Kept
from graphdoc.redaction import redact
from graphdoc.verify import Trial
from graphdoc.verify.results import Results, key_of
from graphdoc.verify.verdict import Verdict

if TYPE_CHECKING:
    from graphdoc.fixes.proposals import Candidate

SECONDS = 60.0
"""Seconds that all trials of one report may take together, if nothing else is asked for: as long as a person waits."""
_LEAST = 1.0


@dataclass
class Trying:
    """How a user wants fixes to be tried, and what became of it.

    ``seconds`` for all of them together. ``asked``: also where nothing keeps the program from the user's files.
    ``announce`` is told in one line what will be run, before the first trial; ``progress`` which fix is tried, and an
    empty line at the end. ``interrupted`` is the number of the signal that ended it, 0 where none did.
    """

    seconds: float = SECONDS
    asked: bool = False
    announce: Callable[[str], None] | None = None
    progress: Callable[[str], None] | None = None
    interrupted: int = 0


def recall(kept: Kept, candidates: Sequence[Candidate], seconds: float = 0.0) -> None:
    """Note what earlier trials of this run have found, if they were the user's own. Nothing is run."""
    if not kept.trusted:
        return
    results = Results(kept.folder)
    for candidate in _triable(candidates):
        verdict = results.get(_key(candidate), seconds)
        if verdict is not None:
            _note(candidate, verdict)


def try_out(kept: Kept, evidence: Evidence, candidates: Sequence[Candidate], trying: Trying) -> None:
    """Try candidates in their order until one passes or the time is used up; what is known already is not tried."""
    recall(kept, candidates, trying.seconds)
    tried = _triable(candidates)
    waiting: list[Candidate] = []
    for candidate in tried:
        if candidate.settled:
            break
        if not candidate.fix.verification:
            waiting.append(candidate)
    if not waiting:
        return
    if kept.seconds >= trying.seconds:
        _leave(
            waiting,
            f"not reached: the run failed after {kept.seconds:.0f} s, and trials may take {trying.seconds:.0f} s "
            "(--verify-time)",
        )
        return
    with stoppable() as stop:
        try:
            if trying.announce is not None:
                trying.announce(_announcement(kept, len(tried), trying.seconds))
            _try(kept, evidence, tried, waiting, trying, stop)
        except CannotIsolate as e:
            _leave(waiting, f"{e} (--verify runs it all the same)")
        except Interrupted as e:
            trying.interrupted = e.number
            _leave(waiting, "interrupted")
        finally:
            if trying.progress is not None:
                trying.progress("")


def _announcement(kept: Kept, count: int, seconds: float) -> str:
    what = "the fix" if count == 1 else "the fixes"
    return (
        f"running {kept.request.command[0]} again to try {what}, for at most {seconds:.0f} s in all "
        "(--verify-time; --no-verify prevents it)"
    )


def _try(
    kept: Kept, evidence: Evidence, tried: list[Candidate], waiting: list[Candidate], trying: Trying, stop: Stop
) -> None:
    results = Results(kept.folder)
    deadline = time.monotonic() + trying.seconds
    with Trial(kept, evidence, stop, trying.asked) as trial:
        for candidate in waiting:
            rest = deadline - time.monotonic()
            if rest < _LEAST:
                _leave(waiting, f"the {trying.seconds:.0f} s of --verify-time were used up")
                return
            if trying.progress is not None:
                trying.progress(f"trying fix {tried.index(candidate) + 1} of {len(tried)}: {candidate.fix.title}")
            safe = candidate.fix.safety == "safe"
            verdict = trial.of(candidate.texts, safe, rest, same_numbers=_same_numbers(candidate))
            results.keep(_key(candidate), verdict, trying.seconds)
            _note(candidate, verdict)
            if candidate.settled:
                return


def _triable(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [c for c in candidates if c.texts and c.fix.safety != "display"]


def _same_numbers(candidate: Candidate) -> bool:
    remedy = candidate.remedy
    return remedy is not None and keeps_numbers(remedy.kind, remedy.args)


def _key(candidate: Candidate) -> str:
    asked = candidate.remedy.safety if candidate.remedy is not None else candidate.fix.safety
    return key_of(candidate.texts, asked == "safe", _same_numbers(candidate))


def _note(candidate: Candidate, verdict: Verdict) -> None:
    told = {name: redact(value) if name == "printed" else value for name, value in verdict.to_json().items()}
    fix = replace(candidate.fix, verified=verdict.verified, verification=told)
    if not verdict.equal or verdict.unmeasured:
        # Called safe, and not measured to be: it must not be applied without the user's leave.
        fix = replace(fix, safety="unsafe")
    candidate.fix = fix
    candidate.settled = bool(verdict.verified) or verdict.unmeasured


def _leave(waiting: Sequence[Candidate], why: str) -> None:
    """Note on those that have not been tried why that is."""
    for candidate in waiting:
        if not candidate.fix.verification:
            candidate.fix = replace(candidate.fix, verification={"tried": False, "summary": f"not tried: {why}"})
