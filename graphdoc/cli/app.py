"""The command line in typer: its commands; what the short ones do stands where no typer has to be loaded for it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from graphdoc.cli import compare, doctor, fix, runs
from graphdoc.cli.arguments import AUDITS, CAPTURES, KIND, NANS, Asked, split, split_anywhere
from graphdoc.cli.explaining import explain as tell
from graphdoc.cli.output import FORMATS_HELP, REPORT_HELP, put, writing_to
from graphdoc.cli.running import run as run_program
from graphdoc.cli.running import show_run
from graphdoc.cli.runs import RUN
from graphdoc.errors import UsageError
from graphdoc.version import __version__

if TYPE_CHECKING:
    from graphdoc.launch import Kind


_Misused: type[Exception] = typer.BadParameter.__mro__[1]  # what typer raises of words that it cannot read


def _one_line(misused: Any, command: str) -> UsageError:
    said = str(misused.format_message()).rstrip(".")
    said += "" if said.endswith("?") else ";"
    return UsageError(f"{said[:1].lower()}{said[1:]} `{command} --help` lists what there is")


class _Printed:
    """Words that cannot be read are told in one line; so is a standard output that does not take the help text."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        try:
            with writing_to(sys.stdout):
                return super().make_context(*args, **extra)  # type: ignore[misc]
        except _Misused as e:
            if not sys.argv[1:]:  # typer prints the help
                raise
            parent = extra.get("parent")
            raise _one_line(e, f"{parent.command_path} {args[0]}" if parent is not None else "graphdoc") from e


class Command(_Printed, TyperCommand):
    """One of graphdoc's commands."""


class Commands(_Printed, TyperGroup):
    """All of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0].endswith(".py") and os.path.isfile(args[0]):
            raise UsageError(f"{args[0]} is a script: `graphdoc run {shlex.join(args)}`")
        try:
            return super().resolve_command(ctx, args)
        except _Misused as e:
            raise _one_line(e, "graphdoc") from e


class Everything(Command):
    """A command whose last argument takes everything from the program's name on, even ``--help``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with_value = {name for p in self.params if not getattr(p, "is_flag", True) for name in p.opts}
        ours, kind, rest = self.taken_apart(args, with_value)
        ctx.meta[KIND] = kind
        return super().parse_args(ctx, [*ours, "--", *rest])

    def taken_apart(self, args: list[str], with_value: set[str]) -> tuple[list[str], Kind, list[str]]:
        return split(args, with_value)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        for words in ("SCRIPT [ARGS]...", "-m MODULE [ARGS]...", "-- COMMAND..."):
            formatter.write_usage(ctx.command_path, f"[OPTIONS] {words}")


class Besides(Everything):
    """A command whose own options may also follow the program's name; what follows ``--`` is the program's."""

    def taken_apart(self, args: list[str], with_value: set[str]) -> tuple[list[str], Kind, list[str]]:
        flags = {name for p in self.params if getattr(p, "is_flag", False) for name in p.opts}
        return split_anywhere(args, with_value, flags)


# Plain help text: typer's decorated one costs an import of rich at every start.
app = typer.Typer(
    name="graphdoc",
    cls=Commands,
    help="A crash doctor for PyTorch's autograd: what broke the graph, where in your code, and a patch that was tried.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        put(f"graphdoc {__version__}\n", sys.stdout)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A crash doctor for PyTorch's autograd: what broke the graph, where in your code, and a patch that was tried."""


@app.command("run", cls=Everything, short_help="Run a program and say what broke its graph.")
def run(
    ctx: typer.Context,
    arguments: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARGS]... | -m MODULE [ARGS]... | -- COMMAND...", hidden=True)
    ],
    report: Annotated[list[str] | None, typer.Option("--report", metavar="FORMAT[:FILE]", help=REPORT_HELP)] = None,
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
    for name, value, known in (("audit", audit, AUDITS), ("nan", nan, NANS), ("capture", capture, CAPTURES)):
        if value not in known:
            raise UsageError(f"--{name} is one of {', '.join(known)}, not {value!r}")
    asked = Asked(not no_rerun, nan, "off" if no_audit else audit, strict, check_gradients, baseline, capture)
    raise typer.Exit(run_program(ctx.meta[KIND], arguments, report or [], asked))


app.command("fix", cls=Command, short_help="Print or apply the patch for the last run.")(fix.command)


@app.command("explain", cls=Command, short_help="Explain a cause, a pasted message or a job's log.")
def explain(
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
    raise typer.Exit(tell(target, fmt))


@app.command("show", cls=Command, short_help="Show a kept run again, in any format.")
def show(
    evidence: Annotated[Path | None, RUN] = None,
    fmt: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"terminal, {FORMATS_HELP}.")] = "terminal",
    report: Annotated[list[str] | None, typer.Option("--report", metavar="FORMAT[:FILE]", help=REPORT_HELP)] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Run the program again, apart from your files, where that tells more.")
    ] = False,
) -> None:
    """Show the report of a kept run again, with its patches. Nothing is run without --rerun; torch is not needed."""
    show_run(evidence, fmt, report or [], rerun=rerun)


app.command("runs", cls=Command, short_help="List the kept runs.")(runs.command)
app.command("compare", cls=Besides, short_help="Compare a program's gradients with those of another run of it.")(
    compare.command
)
app.command("doctor", cls=Command, short_help="Tell what graphdoc finds here: Python, torch, isolation.")(
    doctor.command
)


@app.command("causes", cls=Command, short_help="List the catalogue of causes.")
def list_causes(
    fmt: Annotated[str, typer.Option("--format", metavar="table|json|markdown", help="How to list them.")] = "table",
) -> None:
    """List the causes that graphdoc knows. `graphdoc explain CODE` shows the page of one."""
    if fmt not in ("table", "json", "markdown"):
        raise UsageError(f"unknown format {fmt!r}; the formats are table, json, markdown")
    from graphdoc.causes import all_causes

    rows = [(c.code, c.slug, c.title) for c in all_causes()]
    if fmt == "json":
        entries = [{"code": code, "cause": slug, "title": title} for code, slug, title in rows]
        text = json.dumps(entries, indent=2) + "\n"
    elif fmt == "markdown":
        head = "| code | cause | what it is |\n|---|---|---|\n"
        cells = ((code, slug, title.replace("|", "\\|")) for code, slug, title in rows)
        text = head + "".join(f"| {' | '.join(row)} |\n" for row in cells)
    else:
        wide = max((len(slug) for _, slug, _ in rows), default=0)
        text = "".join(f"{code}  {slug:<{wide}}  {title}\n" for code, slug, title in rows)
    put(text, sys.stdout)
