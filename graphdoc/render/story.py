"""What every format says alike: the order of the places, the place to go to, severity, and the words for a fix."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from graphdoc.model import Confidence, Diagnosis, Fix, Report, Role, Span
from graphdoc.render.text import flat, split_lines

_ORDER: dict[Role, int] = {"created": 0, "cause": 1, "consumed": 1, "freed": 1, "mutated": 1, "failed": 2, "related": 3}
_UNNAMED: dict[Role, str] = {
    "cause": "the line to change",
    "created": "made here",
    "consumed": "used here",
    "freed": "its graph is freed here",
    "mutated": "changed in place here",
    "failed": "needed again here",
    "related": "",
}
_CAUSE_WORDS: dict[Confidence, str] = {
    "certain": "cause (certain)",
    "likely": "likely cause",
    "possible": "possible cause",
}


def in_order(spans: Sequence[Span]) -> list[Span]:
    """The places as the story goes: made, then used, freed or written, then needed again.

    A write that has no words of its own is left out where the cause that stands at its very place says them.
    """
    said = {_at(s) for s in spans if s.role == "cause" and s.label}
    spans = [s for s in spans if s.label or s.role != "mutated" or _at(s) not in said]
    return sorted(spans, key=lambda s: _ORDER.get(s.role, 3))


def _at(span: Span) -> tuple[str, int, int, int, int]:
    return (span.file, span.line, span.column, span.end_line, span.end_column)


def main_place(diagnosis: Diagnosis) -> Span | None:
    """The place that a reader should go to: the first cause, else where it failed, else the first place."""
    for role in ("cause", "failed"):
        for span in diagnosis.spans:
            if span.role == role:
                return span
    return diagnosis.spans[0] if diagnosis.spans else None


def label(span: Span) -> str:
    """The span's label on one line, or the usual words for its role."""
    return flat(span.label) or _UNNAMED.get(span.role, "")


def cause_words(diagnosis: Diagnosis) -> str:
    """What the explanation is: a cause, and how sure of it the evidence is."""
    return _CAUSE_WORDS.get(diagnosis.confidence, "possible cause")


def level(report: Report) -> Literal["error", "warning"]:
    """A diagnosis of a run that autograd ended is an error; what was found in one that went on is a warning."""
    return "error" if report.outcome == "autograd-failure" else "warning"


def badge(fix: Fix) -> str:
    """``safe, verified`` and its like: whether the fix may be applied blindly and what became of the trial."""
    if fix.safety == "display":
        return "by hand"
    if not fix.diff:
        return f"{fix.safety}, by hand"
    open_ = "tried, not verified" if fix.verification.get("tried", bool(fix.verification)) else "not tried"
    trial = {True: "verified", False: "tried: does not hold", None: open_}[fix.verified]
    return f"{fix.safety}, {trial}"


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


def commands(report: Report, diagnosis: Diagnosis) -> list[str]:
    """The commands that say or do more; only the first diagnosis with a patch names ``fix``, which works on that."""
    found = [f"graphdoc explain {diagnosis.code}"]
    patched = [d for d in report.diagnoses if any(f.diff and f.safety != "display" for f in d.fixes)]
    if patched and patched[0] is diagnosis:
        found.append("graphdoc fix --diff")
    return found


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
