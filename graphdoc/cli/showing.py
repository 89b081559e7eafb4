"""A kept run told again: what ``graphdoc show`` does once its words are read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from graphdoc.cli.output import check_format, parse_reports, put, show, write_reports


def show_run(evidence: Path | None, fmt: str = "terminal", reports: Sequence[str] = (), *, rerun: bool = False) -> None:
    """Print the report of a kept run, of the last one without ``evidence``, and write the other ``reports``.

    Raises:
        UsageError: there is no such run or format, or a report must not be written where it is asked for.
    """
    check_format(fmt)
    wanted = parse_reports(reports)
    from graphdoc.cli.running import diagnosed, with_patches
    from graphdoc.launch.keep import last_run, open_run

    kept = last_run(Path.cwd()) if evidence is None else open_run(evidence, Path.cwd())
    result = with_patches(kept, diagnosed(replace(kept, rerun=rerun and kept.rerun)), recall=True)
    if evidence is not None:
        fixed_by = f"{result.run.fixed_by} {shlex.quote(str(evidence))}"
        result = replace(result, run=replace(result.run, fixed_by=fixed_by))
    if fmt == "terminal" and not (result.diagnoses or result.notes):
        from graphdoc.render.story import not_observed, verdict

        if not not_observed(result):
            put(verdict(result) + "\n", sys.stdout)
    show(result, fmt, sys.stdout)
    write_reports(result, wanted)
