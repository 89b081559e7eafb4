"""Findings that the user has said to leave alone: by code in the project's settings, or in a comment on the line.

    ignore = ["GD705"]                    # in [tool.graphdoc]
    loss.backward()  # graphdoc: ignore[GD705]

Only of a run that went on: what ended a program is always told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from graphdoc.errors import UsageError
from graphdoc.model import Diagnosis
from graphdoc.project import settings_of

_COMMENT = re.compile(r"#\s*graphdoc:\s*ignore\[([^\]]*)\]")


def not_ignored(told: Sequence[Diagnosis], sources: Mapping[str, str], folder: Path) -> tuple[Diagnosis, ...]:
    """Those that neither the settings of somebody who stands in ``folder`` nor a comment at their cause leave alone."""
    try:
        codes = settings_of(folder)[1].get("ignore", ())
    except UsageError:  # whoever reads the settings for their options says so
        codes = ()
    everywhere = set(codes) if isinstance(codes, list) else set()
    return tuple(d for d in told if d.code not in everywhere and d.code not in _at_its_lines(d, sources))


def _at_its_lines(diagnosis: Diagnosis, sources: Mapping[str, str]) -> set[str]:
    """The codes in comments on the lines of its causes."""
    found: set[str] = set()
    for span in diagnosis.spans:
        if span.role == "cause":
            lines = sources.get(span.file, "").splitlines()[span.line - 1 : max(span.line, span.end_line)]
            for comment in _COMMENT.finditer("\n".join(lines)):
                found |= set(re.findall(r"GD\d{3}", comment[1]))
    return found
