"""``graphdoc show``: a kept run again, in any format."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from graphdoc.cli.output import check_format, put, show


def command(
    evidence: Annotated[
        Path | None, typer.Argument(metavar="[EVIDENCE]", help="An evidence file or a run's folder; else the last run.")
    ] = None,
    fmt: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="As for `graphdoc run --report`.")
    ] = "terminal",
) -> None:
    """Show the report of a kept run again. Nothing is run; torch is not needed."""
    check_format(fmt)
    from graphdoc.diagnose import report_for
    from graphdoc.launch.keep import last_run, open_run

    kept = last_run(Path.cwd()) if evidence is None else open_run(evidence, Path.cwd())
    result = report_for(replace(kept, rerun=False))
    if fmt == "terminal" and not (result.diagnoses or result.notes):
        from graphdoc.render.story import not_observed, verdict

        if not not_observed(result):
            put(verdict(result) + "\n", sys.stdout)
    show(result, fmt, sys.stdout)
