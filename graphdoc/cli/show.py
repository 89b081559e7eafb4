"""``graphdoc show``: a kept run again, in any format."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from graphdoc.cli.output import FORMATS_HELP, REPORT_HELP, check_format, parse_reports, put, show, write_reports


def command(
    evidence: Annotated[
        Path | None, typer.Argument(metavar="EVIDENCE", help="An evidence file or a run's folder; else the last run.")
    ] = None,
    fmt: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"terminal, {FORMATS_HELP}.")] = "terminal",
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT[:FILE]", help=REPORT_HELP),
    ] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Run the program once more, apart from your files, where that tells more.")
    ] = False,
) -> None:
    """Show the report of a kept run again, with its patches. Nothing is run without --rerun; torch is not needed."""
    check_format(fmt)
    wanted = parse_reports(report or [])
    from graphdoc.cli.running import diagnosed, with_patches
    from graphdoc.launch.keep import last_run, open_run

    kept = last_run(Path.cwd()) if evidence is None else open_run(evidence, Path.cwd())
    result = with_patches(kept, diagnosed(replace(kept, rerun=rerun and kept.rerun)), recall=True)
    if fmt == "terminal" and not (result.diagnoses or result.notes):
        from graphdoc.render.story import not_observed, verdict

        if not not_observed(result):
            put(verdict(result) + "\n", sys.stdout)
    show(result, fmt, sys.stdout)
    write_reports(result, wanted)
