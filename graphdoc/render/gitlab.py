"""GitLab's Code Quality report: a JSON array with one entry for each diagnosis."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from graphdoc.model import Confidence, Diagnosis, Report
from graphdoc.render import story
from graphdoc.render.json import document
from graphdoc.render.text import flat

BEGINS = re.compile(r'\[\s*(\{\s*"description": "(GD\d{3}|graphdoc): |\]\s*\Z)')

_SEVERITY: dict[str, dict[Confidence, str]] = {
    "error": {"certain": "critical", "likely": "major", "possible": "minor"},
    "warning": {"certain": "major", "likely": "minor", "possible": "info"},
}


def render(report: Report, *, width: int, color: bool) -> str:
    """The artifact for ``artifacts:reports:codequality``; an empty array says that nothing is wrong with the graph."""
    seen: dict[str, int] = {}
    entries = []
    for diagnosis in report.diagnoses:
        entry = _entry(report, diagnosis)
        times = seen[entry["fingerprint"]] = seen.get(entry["fingerprint"], 0) + 1
        if times > 1:  # GitLab shows only one entry of equal fingerprints
            entry["fingerprint"] += f"-{times}"
        entries.append(entry)
    if story.not_observed(report):
        entries.append(_not_observed(report))
    return document(entries)


def _not_observed(report: Report) -> dict[str, Any]:
    path = _script(report)
    return {
        "description": f"graphdoc: {story.not_observed(report)}",
        "check_name": "not-observed",
        "severity": "info",
        "fingerprint": hashlib.sha256(f"not-observed\0{path}".encode("utf-8", "backslashreplace")).hexdigest()[:32],
        "location": {"path": path, "lines": {"begin": 1}},
    }


def _entry(report: Report, diagnosis: Diagnosis) -> dict[str, Any]:
    severity = _SEVERITY[story.level(report)]
    return {
        # GitLab does not show check_name, so the description begins with the code
        "description": f"{diagnosis.code}: {flat(diagnosis.title)}",
        "check_name": diagnosis.cause,
        "severity": severity.get(diagnosis.confidence, severity["possible"]),
        "fingerprint": story.fingerprint(report, diagnosis),
        "location": _location(report, diagnosis),
    }


def _location(report: Report, diagnosis: Diagnosis) -> dict[str, Any]:
    place = story.main_place(diagnosis)
    if place is None or story.repository_path(place.file).startswith("/"):  # GitLab wants a path in the repository
        return {"path": _script(report), "lines": {"begin": 1}}
    begin = {"line": place.line, "column": place.column}
    end = {"line": max(place.line, place.end_line), "column": place.end_column}
    return {"path": story.repository_path(place.file), "positions": {"begin": begin, "end": end}}


def _script(report: Report) -> str:
    """A location is obligatory: the script itself stands for a place that is not known."""
    return story.repository_path(next((word for word in report.run.command if word.endswith(".py")), "."))
