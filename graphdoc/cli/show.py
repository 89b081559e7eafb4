"""``graphdoc show``: a kept run again, in any format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoc.cli.output import FORMATS_HELP, REPORT_HELP
from graphdoc.cli.runs import RUN
from graphdoc.cli.showing import show_run


def command(
    evidence: Annotated[Path | None, RUN] = None,
    fmt: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"terminal, {FORMATS_HELP}.")] = "terminal",
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT[:FILE]", help=REPORT_HELP),
    ] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Run the program again, apart from your files, where that tells more.")
    ] = False,
) -> None:
    """Show the report of a kept run again, with its patches. Nothing is run without --rerun; torch is not needed."""
    show_run(evidence, fmt, report or [], rerun=rerun)
