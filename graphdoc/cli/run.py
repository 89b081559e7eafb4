"""``graphdoc run``: its options. What it does stands in ``running``, its words are taken apart in ``arguments``."""

from __future__ import annotations

from typing import Annotated

import typer

from graphdoc.cli.arguments import AUDITS, CAPTURES, KIND, NANS, Asked
from graphdoc.cli.output import REPORT_HELP
from graphdoc.cli.running import run
from graphdoc.errors import UsageError


def command(
    ctx: typer.Context,
    arguments: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARGS]... | -m MODULE [ARGS]... | -- COMMAND...", hidden=True)
    ],
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT[:FILE]", help=REPORT_HELP),
    ] = None,
    no_rerun: Annotated[
        bool, typer.Option("--no-rerun/--rerun", help="Never run the program a second time to find out more.")
    ] = False,
    nan: Annotated[
        str,
        typer.Option(
            "--nan",
            metavar="report|all|stop|off",
            help="Tell at the end where the first nan or inf of the training came from, or of any operation (all), or "
            "stop the program where nan is met.",
        ),
    ] = "report",
    audit: Annotated[
        str,
        typer.Option(
            "--audit",
            metavar="on|off|all",
            help="Look whether a run that goes on trains what it is meant to; all tells weak signs too.",
        ),
    ] = "on",
    no_audit: Annotated[bool, typer.Option("--no-audit", help="The same as --audit off.")] = False,
    check_gradients: Annotated[
        bool,
        typer.Option(
            "--check-gradients/--no-check-gradients",
            help="Measure, in a run of its own, whether the gradients that optimizers use are those of the loss.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict/--no-strict", help="End with status 1 where anything was found.")
    ] = False,
    capture: Annotated[
        str,
        typer.Option(
            "--capture",
            metavar="full|learned",
            help="For long runs (learned): do not record steps that are like the last ones, and let a second run "
            "record a crash in one of them.",
        ),
    ] = "full",
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline", metavar="RUN", help="Tell only what this other run did not have (see `graphdoc runs`)."
        ),
    ] = "",
    _show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print what pyproject.toml sets, and do nothing.")
    ] = False,
) -> None:
    """Run a program under observation; say what broke its graph and where, or what it silently fails to train.

    The program runs as it does without graphdoc and its exit status is kept. Options of graphdoc stand before the
    script; everything behind it belongs to the script. The report goes to stderr; what was recorded is kept in
    .graphdoc/ for `graphdoc fix` and `graphdoc show`.
    """
    if audit not in AUDITS:
        raise UsageError(f"--audit is one of {', '.join(AUDITS)}, not {audit!r}")
    if nan not in NANS:
        raise UsageError(f"--nan is one of {', '.join(NANS)}, not {nan!r}")
    if capture not in CAPTURES:
        raise UsageError(f"--capture is one of {', '.join(CAPTURES)}, not {capture!r}")
    asked = Asked(not no_rerun, nan, "off" if no_audit else audit, strict, check_gradients, baseline, capture)
    raise typer.Exit(run(ctx.meta[KIND], arguments, report or [], asked))
