"""``graphdoc run --baseline RUN``: a report without the findings that an earlier run had as well."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.model import Report


def findings_of(place: str, mode: str) -> frozenset[str]:
    """The fingerprints of what was found in a kept run, looked at as closely as ``mode`` asks for; nothing is run.

    Raises:
        UsageError: there is no such run, or it cannot be read.
    """
    from graphdoc.diagnose import report_for
    from graphdoc.launch.keep import open_run
    from graphdoc.render.story import fingerprint

    kept = open_run(Path(place), Path.cwd())
    report = report_for(replace(kept, rerun=False, request=replace(kept.request, mode=mode)))
    return frozenset(fingerprint(report, d) for d in report.diagnoses)


def without(report: Report, known: frozenset[str]) -> Report:
    """The report without the findings that are known, and a note on these."""
    from graphdoc.render.story import fingerprint

    left_out = [d for d in report.diagnoses if fingerprint(report, d) in known]
    if not left_out:
        return report
    codes = ", ".join(dict.fromkeys(d.code for d in left_out))
    note = f"not told, because the baseline has it as well: {codes}"
    told = tuple(d for d in report.diagnoses if d not in left_out)
    return replace(report, diagnoses=told, notes=(*report.notes, note))
