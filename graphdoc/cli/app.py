"""The command line in typer: every command is one thin file beside this one."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from graphdoc.cli import causes, compare, doctor, fix, run, runs, show
from graphdoc.cli.arguments import KIND, split, split_anywhere
from graphdoc.cli.output import put, writing_to
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


app.command("run", cls=Everything, short_help="Run a program and say what broke its graph.")(run.command)
app.command("fix", cls=Command, short_help="Print or apply the patch for the last run.")(fix.command)
if importlib.util.find_spec("graphdoc.cli.explain") is not None:
    explain = importlib.import_module("graphdoc.cli.explain")
    app.command("explain", cls=Command, short_help="Explain a cause, a pasted message or a job's log.")(explain.command)
app.command("show", cls=Command, short_help="Show a kept run again, in any format.")(show.command)
app.command("runs", cls=Command, short_help="List the kept runs.")(runs.command)
app.command("compare", cls=Besides, short_help="Compare a program's gradients with those of another run of it.")(
    compare.command
)
app.command("doctor", cls=Command, short_help="Tell what graphdoc finds here: Python, torch, isolation.")(
    doctor.command
)
app.command("causes", cls=Command, short_help="List the catalogue of causes.")(causes.command)
