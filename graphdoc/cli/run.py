"""``graphdoc run``: its options. What it does stands in ``running``, its words are taken apart in ``arguments``."""

from __future__ import annotations

from typing import Annotated

import typer

from graphdoc.cli.arguments import KIND
from graphdoc.cli.running import run


def command(
    ctx: typer.Context,
    arguments: Annotated[list[str], typer.Argument(metavar="SCRIPT [ARGS]... | -m MODULE [ARGS]... | -- COMMAND...")],
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT[:FILE]", help="Write a report as well; may be given several times."),
    ] = None,
    no_rerun: Annotated[
        bool, typer.Option("--no-rerun", help="Never run the program a second time to find out more.")
    ] = False,
    nan: Annotated[
        bool, typer.Option("--nan", help="Look for gradients that are not finite as well (slower).")
    ] = False,
) -> None:
    """Run a program under observation; when autograd fails in it, say what broke the graph and where.

    The program runs as it does without graphdoc and its exit status is kept. Options of graphdoc stand before the
    script; everything behind it belongs to the script. The report goes to stderr; what was recorded is kept in
    .graphdoc/ for `graphdoc fix` and `graphdoc show`.
    """
    raise typer.Exit(run(ctx.meta[KIND], arguments, report or [], rerun=not no_rerun, nan=nan))
