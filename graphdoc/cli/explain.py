"""``graphdoc explain``: the page of a cause, or what a pasted message or a job's log allows to say."""

from __future__ import annotations

from typing import Annotated

import typer

from graphdoc.cli.explaining import explain
from graphdoc.cli.output import FORMATS_HELP


def command(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE|FILE|TEXT|-", help="A code (GD101), a slug, a log, a pasted message, or - (stdin)."
        ),
    ] = None,
    fmt: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help=f"text or, for a machine or an issue, {FORMATS_HELP}.")
    ] = "text",
) -> None:
    """Explain a cause, or find in a log or a pasted message what went wrong. Nothing is run; torch is not needed."""
    raise typer.Exit(explain(target, fmt))
