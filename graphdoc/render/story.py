"""What every format says alike: the order of the places, the place to go to, severity, and the words for a fix."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from graphdoc.line_changes import parse
from graphdoc.model import COMPLETE, Confidence, Diagnosis, Fix, Report, Role, Span
from graphdoc.render.text import flat, split_lines

_ORDER: dict[Role, int] = {"created": 0, "cause": 1, "consumed": 1, "freed": 1, "mutated": 1, "failed": 2, "related": 3}
_UNNAMED: dict[Role, str] = {
    "cause": "the line to change",
    "created": "made here",
    "consumed": "used here",
    "freed": "its graph is freed here",
    "mutated": "changed in place here",
    "failed": "noticed here",
    "related": "",
}


MOST_PLACES = 5
"""Places told beside those to change."""
_WEIGHT: dict[Role, int] = {
    "failed": 0,
    "freed": 1,
    "mutated": 1,
    "cause": 1,
    "created": 3,
    "consumed": 4,
    "related": 5,
}
_SURE: dict[Confidence, str] = {
    "certain": "the recorded run proves it",
    "likely": "it fits what was seen, and nothing speaks against it",
    "possible": "one of the reasons that fit",
}
_LEAD = 150
"""Characters of the two sentences that a short report begins with; with more, it begins with one."""
_FIX = "graphdoc fix"
_CODE = re.compile(r"`[^`]+`")
_COUNTS = re.compile(r"\bversion \d+, \d+ expected|\bat version \d+, it is now")
"""In a fact: the arithmetic of version counters, which JSON and the page tell to those who ask."""
NO_TORCH = "torch was not imported in any process that was observed: there was no graph to look at."
_EARLY, _LATE = (-1, 0), (1 << 62, 0)


def verdict(report: Report) -> str:
    """What a report without a diagnosis says: of the graph only where it was observed."""
    if told := not_observed(report):
        return told[0].upper() + told[1:] if told.startswith("not") else told
    if report.run.command and report.exception is not None:
        return "The run ended with an exception, and no fault of the graph was found."
    return "Nothing is wrong with the graph of this run."


def not_observed(report: Report) -> str:
    """A sentence on what was not observed, or an empty string."""
    if not report.observed.complete:
        return f"not observed: {flat(report.observed.why)}."
    return "" if report.observed.torch else NO_TORCH


def in_order(spans: Sequence[Span]) -> list[Span]:
    """The places as the story goes: made, then used, freed or written, then needed again.

    Where it is known when something happened, that decides; a place without a time stands where its role has it. A
    write that has no words of its own is left out where the cause that stands at its very place says them.
    """
    said = {s.extent for s in spans if s.role == "cause" and s.label}
    spans = [s for s in spans if s.label or s.role != "mutated" or s.extent not in said]
    return sorted(spans, key=lambda s: (_ORDER.get(s.role, 3), s.when or _EARLY))


def in_time(diagnosis: Diagnosis, most: int = MOST_PLACES) -> list[Span]:
    """The places beside those to change, at most ``most``, the ones that matter most, in order of time.

    What has no time of its own stands where its role has it: made before the rest, failed behind it. A call is told
    once: what is the matter with it and what it did when are said by the place that has a time. That it failed at the
    very place that is to be changed is told by the latter.
    """
    drawn = {s.extent for s in to_change(diagnosis)}
    ordered = in_order(diagnosis.spans)
    calls = [s for s in ordered if s.role in ("freed", "failed") and (s.when is not None or s.extent not in drawn)]
    known = {s.extent for s in calls if s.when is not None}
    causes = {
        s.extent: s
        for s in ordered
        if s.role == "cause" and s.extent not in drawn and (s.when is not None or s.extent not in known)
    }
    others = [s for s in ordered if s.role not in ("cause", "freed", "failed") and s.extent not in {*causes, *drawn}]
    if not any(s.role == "cause" for s in ordered):
        calls = [s for s in calls if s.extent not in drawn]
    told = [*calls, *causes.values(), *others]
    kept = sorted(told, key=lambda s: _WEIGHT.get(s.role, 5))[:most]
    times = [s.when for s in kept if s.when is not None]
    first, last = min(times, default=_EARLY), max(times, default=_LATE)

    def time(span: Span) -> tuple[tuple[int, int], int]:
        early, late = (first[0], -1), _LATE
        by_role: dict[Role, tuple[int, int]] = {"created": early, "cause": early, "failed": late, "related": late}
        stands = span.when or by_role.get(span.role, last)
        return stands, _ORDER.get(span.role, 3)

    return sorted(kept, key=time)


def numbered(places: Sequence[Span]) -> list[tuple[int, Span]]:
    """The places with their numbers in the order of time; 0 for a help to read without a time, and for a cause without
    one among places that have theirs.
    """
    count = itertools.count(1)
    timed = any(s.when is not None for s in places)
    without = ("related", "cause") if timed else ("related",)
    return [(0 if s.role in without and s.when is None else next(count), s) for s in places]


def lead(diagnosis: Diagnosis) -> str:
    """What a short report says below the title: the first sentence of the explanation, with the second where both are
    short."""
    return "".join(f"{sentence}. " for sentence in _explained(diagnosis)[0]).rstrip()


def proof(diagnosis: Diagnosis) -> list[str]:
    """At most two sentences on what proves it, beside the ``lead``; without a fix also what is left of the explanation,
    since what to do is said nowhere else."""
    rest = _explained(diagnosis)[1]
    proofs = evidence(diagnosis, counts=False)
    return [proofs[0], ". ".join(rest)] if rest and not diagnosis.fixes else proofs


def evidence(diagnosis: Diagnosis, *, counts: bool = True) -> list[str]:
    """At most two sentences on what proves it, beside the whole explanation: the reason and what was measured, with the
    arithmetic of version counters or without; where there is neither, what the confidence stands for.
    """
    because = flat(diagnosis.because)
    said = f"{flat(diagnosis.title)} {because}"
    facts = [f for f in map(flat, diagnosis.facts) if f and not _says_nothing_new(f, said)]
    proofs = [p for p in (because, *facts) if p and (counts or p is because or not _COUNTS.search(p))]
    return proofs[:2] or [diagnosis.proof or _SURE[diagnosis.confidence]]


def _explained(diagnosis: Diagnosis) -> tuple[list[str], list[str]]:
    """The sentences of the explanation, less one that repeats the title: those that lead, and those that are left."""
    told = _sentences(diagnosis.explanation)
    if len(told) > 1 and told[0].startswith(flat(diagnosis.title)):
        del told[0]
    both = len(told) > 1 and len(told[0]) + len(told[1]) <= _LEAD
    count = 2 if both else 1
    return told[:count], told[count:]


def effect(fix: Fix) -> str:
    """What the fix does to the gradients, in one sentence."""
    return next(iter(_sentences(fix.note)), "")


def _says_nothing_new(fact: str, said: str) -> bool:
    """Whether all that a fact names has been named before, or the fact itself has been told."""
    names = _CODE.findall(fact)
    return fact in said or (bool(names) and all(name in said for name in names))


def _sentences(text: str) -> list[str]:
    """The sentences of a text, each without its full stop: a new one begins with a capital, or with code."""
    return [s.removesuffix(".") for s in re.split(r"(?<=\.)\s+(?=[A-Z`])", flat(text)) if s]


def to_change(diagnosis: Diagnosis) -> list[Span]:
    """The places that a reader should go to first: the causes that the best fix changes.

    Without a patch, all causes; where the patch lies elsewhere, the first one; without a cause, where it failed.
    """
    causes = list({s.extent: s for s in diagnosis.spans if s.role == "cause"}.values())
    if not causes:
        failed = [s for s in diagnosis.spans if s.role == "failed"]
        return (failed or list(diagnosis.spans))[:1]
    best = diagnosis.fixes[0] if diagnosis.fixes else None
    if best is None or not best.diff:
        return causes
    changed = {(f.path, c.old_start + i) for f in parse(best.diff) for c in f.changes for i in range(len(c.old))}
    hit = [s for s in causes if any((s.file, line) in changed for line in range(s.line, max(s.line, s.end_line) + 1))]
    return hit or causes[:1]


def main_place(diagnosis: Diagnosis) -> Span | None:
    """The first place to change, else where it failed, else the first place."""
    return next(iter(to_change(diagnosis)), None)


def label(span: Span) -> str:
    """The span's label on one line, or the usual words for its role."""
    return flat(span.label) or _UNNAMED.get(span.role, "")


def added(report: Report, told: Report) -> str:
    """What a second run has added to a report of the first one alone that had a diagnosis: the words for it; none where
    title, place, certainty and patch stand."""
    if not report.diagnoses:
        return "what is told above does not hold"
    now, before = report.diagnoses[0], told.diagnoses[0]
    if now.code != before.code:
        return "this takes the place of what is told above"
    words = [f"{d.code} does not hold" for d in told.diagnoses[1:] if d.code not in {n.code for n in report.diagnoses}]
    if now.confidence != before.confidence:
        words.append(f"now {now.confidence}")
    place, old = main_place(now), main_place(before)
    if place is not None and (old is None or (place.file, place.line) != (old.file, old.line)):
        alone = len({span.file for span in now.spans}) == 1
        words.append(f"the place to go to is {f'line {place.line}' if alone else f'{place.file}:{place.line}'}")
    patch, first = (d.fixes[0].diff if d.fixes else "" for d in (now, before))
    if patch != first:
        words.append("the patch above does not hold" if not patch else "another patch" if first else "a patch")
    return "; ".join(words) or ("more is known of it" if now.title != before.title else "")


def level(report: Report) -> Literal["error", "warning"]:
    """A diagnosis of a run that autograd ended is an error; what was found in one that went on is a warning."""
    return "error" if report.outcome == "autograd-failure" else "warning"


def head(fix: Fix) -> str:
    """What the best fix is introduced by: one that has failed is no help."""
    return "tried" if fix.verified is False else "help"


def badge(fix: Fix) -> str:
    """``safe, verified`` and its like: whether the fix may be applied blindly and what became of the trial."""
    if fix.safety not in COMPLETE:
        return "to fill in" if fix.diff and fix.placeholders else "by hand"
    if not fix.diff and fix.verified is None:
        return f"{fix.how_safe}, no patch"
    return f"{fix.how_safe}, {trial(fix)}"


def trial(fix: Fix) -> str:
    """What became of the trial of a fix."""
    if fix.verified is not None:
        return "verified" if fix.verified else "tried, does not work"
    return "tried, not verified" if fix.verification.get("tried", bool(fix.verification)) else "not tried"


def to_fill_in(fix: Fix) -> str:
    """What is left to its user: each name that the patch leaves open, and what is to be written there."""
    return "; ".join(f"`{name}`: {flat(means)}" for name, means in fix.placeholders.items() if fix.diff)


def measured(verification: Mapping[str, Any]) -> list[str]:
    """What the trial of a fix measured, as short statements. A ``summary`` is used alone, in its own words."""
    if "summary" in verification:
        summary = verification["summary"]
        return [flat(str(s)) for s in (summary if isinstance(summary, (list, tuple)) else [summary]) if s]
    return [
        f"{flat(str(key)).replace('_', ' ')}: {words}"
        for key, value in verification.items()
        if (words := _words(value))
    ]


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{flat(str(k)).replace('_', ' ')} {_words(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_words(v) for v in value)
    return "" if value is None else flat(str(value))


def patched(report: Report) -> Diagnosis | None:
    """The diagnosis that ``graphdoc fix`` works on: the first one with a patch."""
    return next((d for d in report.diagnoses if any(f.is_complete for f in d.fixes)), None)


def more(report: Report, diagnosis: Diagnosis) -> str:
    """Where more is to be had: the page of the cause and, for the diagnosis with patches, the other fixes."""
    text = f"`graphdoc explain {diagnosis.code}`"
    others = len(diagnosis.fixes) - 1
    if patched(report) is not diagnosis:
        return f"{text}; what was tried: `{report.run.fixed_by} --list`" if _failed(diagnosis) else text
    if not _has_options(report) or others < 1:
        return text
    return f"{text}; {others} other fix{'es' if others > 1 else ''}: `{report.run.fixed_by} --list`"


def _has_options(report: Report) -> bool:
    """Whether what mends it is the command, perhaps with a run's name, and not a notebook's magic."""
    return report.run.fixed_by.startswith(_FIX)


def _failed(diagnosis: Diagnosis) -> bool:
    return any(fix.verified is False for fix in diagnosis.fixes)


def commands(report: Report, diagnosis: Diagnosis) -> list[str]:
    """The commands that say or do more; only the first diagnosis with a patch names ``fix``, which works on that."""
    found = [f"graphdoc explain {diagnosis.code}"]
    mends = f"{report.run.fixed_by} --diff" if _has_options(report) else report.run.fixed_by
    return [*found, mends] if patched(report) is diagnosis else found


def next_step(report: Report, diagnosis: Diagnosis) -> tuple[str, str]:
    """What to do now, and the command that does it; empty words where no patch of this diagnosis is offered."""
    if patched(report) is not diagnosis or to_fill_in(diagnosis.fixes[0]):
        return _printed(report, diagnosis)
    mends = report.run.fixed_by
    if not _has_options(report):
        return "fix it: ", mends
    best = diagnosis.fixes[0]
    if best.verified:
        return "apply it: ", mends if best.safety == "safe" else f"{mends} --unsafe"
    return "try it: ", f"{mends} --diff"


def _printed(report: Report, diagnosis: Diagnosis) -> tuple[str, str]:
    """How to get a patch that its user is to finish, by its number in the list of all fixes."""
    best = diagnosis.fixes[0] if diagnosis.fixes else None
    if best is None or not to_fill_in(best) or not _has_options(report):
        return "", ""
    every = [fix for d in report.diagnoses for fix in d.fixes]
    return "print it: ", f"{report.run.fixed_by} --diff --choose {next(n for n, f in enumerate(every, 1) if f is best)}"


def repository_path(file: str) -> str:
    """A span's file as code hosts want it: relative to the checkout where it lies below it, with forward slashes.

    A job may run in a subfolder of its checkout, which GitHub and GitLab name in the environment.
    """
    root = os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR") or os.getcwd()
    full = os.path.normpath(os.path.join(os.getcwd(), file))
    try:
        inside = Path(full).relative_to(os.path.normpath(root))
    except ValueError:
        return file.replace("\\", "/") if os.sep == "\\" else file
    return inside.as_posix()


def fingerprint(report: Report, diagnosis: Diagnosis) -> str:
    """A stable name of a finding: it survives lines added above it, not a change of the line itself."""
    import hashlib

    place = main_place(diagnosis)
    parts = [diagnosis.code]
    if place is not None:
        lines = split_lines(report.sources.get(place.file, ""))
        text = lines[place.line - 1].strip() if 0 < place.line <= len(lines) else str(place.line)
        parts += [repository_path(place.file), text]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]
