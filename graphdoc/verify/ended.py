"""What ended a patched run: its own failure, the original's, another one, or nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from graphdoc.evidence import Evidence
from graphdoc.launch import Ended
from graphdoc.messages.recognise import recognise_exception
from graphdoc.verify.blame import leads_to, unbinds
from graphdoc.verify.compared import Outcome
from graphdoc.verify.failing_again import failing_place, fails_alike, fails_elsewhere
from graphdoc.verify.lines import original_line
from graphdoc.verify.same_signs import left_in_part, left_over, same_signs

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
) -> Outcome:
    """What ended the patched program. An autograd error that it caught counts as well: the original has none.

    ``failed`` is the evidence that the patched run left, ``before`` and ``texts`` are the changed files before and
    after the change.
    """
    outcome = Outcome(ended.exit_status, ended.timed_out, ended.seconds, stopped=ended.stopped)
    outcome.refused, outcome.printed = ended.refused, last_line(ended.printed)
    # Beside a crash, what is seen is a fault of its own.
    outcome.still = failed is not None and original.went_on and same_signs(original.signs, failed.signs)
    if failed is not None:
        part = left_in_part(original.signs, failed.signs) if original.went_on else ""
        outcome.left = part or left_over(original.signs, failed.signs)
    if failed is None or failed.raised is None or failed.went_on:
        return outcome
    raised = failed.raised
    back = original_line(before, texts, cwd)
    outcome.same = fails_alike(original, failed, back)
    match = recognise_exception(raised.type, raised.message)
    outcome.autograd = match is not None and match.kind == "error"
    # A run that was ended behind the failure had dealt with what was raised in it.
    if (ended.stopped or not raised.uncaught) and ended.exit_status == 0 and not outcome.same:
        return outcome
    outcome.failure = f"{raised.type}: {raised.message}"
    outcome.next = failed if outcome.autograd and not outcome.same else None
    outcome.elsewhere = fails_elsewhere(original, failed, back)
    outcome.passed = not outcome.same and 0 <= original.failing_event < failed.failing_event
    at = failing_place(failed.failing_call, failed.raised)
    outcome.place = f" at {at.file}:{at.line}" if at is not None else ""
    outcome.later = _is_anothers(outcome, original, failed, before, texts, cwd)
    outcome.clumsy = raised.type in _CLUMSY and not outcome.later
    outcome.outside = _outside(raised.type.rpartition(".")[2], ended)
    return outcome


def _outside(name: str, ended: Ended) -> str:
    if name in _PROCESSES:
        return " (a trial reaches no other processes)"
    return " (a trial has no network, and what it writes goes nowhere)" if name in _OUTSIDE and not ended.open else ""


def _is_anothers(
    outcome: Outcome,
    original: Evidence,
    failed: Evidence,
    before: Mapping[str, str],
    texts: Mapping[str, str],
    cwd: str,
) -> bool:
    """Whether a plain error behind the failure has nothing to do with what was changed.

    It is raised in the program's own statement, elsewhere, and no value from a changed statement gets there.
    """
    at = failing_place(failed.failing_call, failed.raised)
    if outcome.same or outcome.autograd or not outcome.elsewhere or at is None:
        return False
    name = _UNDEFINED.search(outcome.failure)
    if name is not None:
        return not unbinds(before, texts, name[1], at, cwd)
    others = {**failed.sources, **original.sources}
    paths = {os.path.realpath(os.path.join(cwd, name)): text for name, text in others.items()}
    return not leads_to(before, texts, paths, at, cwd)


def last_line(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
