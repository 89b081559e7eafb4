"""``graphdoc compare``: the program beside another run of it, by the gradients that its optimizers' steps are given."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoc.cli.arguments import KIND
from graphdoc.cli.output import parse_reports, put, say
from graphdoc.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphdoc.evidence import Evidence
    from graphdoc.model import Span


def command(
    ctx: typer.Context,
    arguments: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [-- ARGS]... | -m MODULE [-- ARGS]... | -- COMMAND...", hidden=True)
    ],
    other: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="eager|float64|cpu|one-process|one-batch|REVISION",
            help="What the program is compared with.",
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option("--with-args", metavar="ARGS", help="Or the same program, with these words after its name."),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", min=1, metavar="N", help="Steps of an optimizer that are compared.")
    ] = 3,
    time: Annotated[
        float, typer.Option("--time", min=1.0, metavar="SECONDS", help="How long each of the runs may take.")
    ] = 120.0,
    unkept: Annotated[
        bool, typer.Option("--unkept", help="Run it also where its writes cannot be kept from your files.")
    ] = False,
    report: Annotated[
        str | None, typer.Option("--report", metavar="json[:FILE]", help="Write the result as JSON, to stderr or FILE.")
    ] = None,
) -> None:
    """Compare the gradients of a program's first steps with those of another run of it.

    eager: without torch.compile. float64: in double precision, on the CPU. cpu: on the CPU. one-process: one with the
    batch of all ranks. one-batch: one in place of those between two steps. REVISION: its Python files as git has them
    there. --with-args: with other arguments of its own. What rounding explains is no difference: a third run, whose
    weights are moved by rounding, tells how much that is. Ends with 0 where there is no difference, 1 where there is
    one, 2 where nothing can be told.
    """
    sources = arguments[:1] if ctx.meta[KIND] == "script" else []
    wanted = parse_reports([report] if report is not None else [], sources=sources)
    if any(one.format != "json" for one in wanted):
        raise UsageError(f"--report {report}: a comparison is reported as json")
    from graphdoc.cli.output import Waiting
    from graphdoc.launch import Request
    from graphdoc.launch.isolation import CannotIsolate, check_ways, stoppable
    from graphdoc.verify.two_runs import against, as_json, compared, other_arguments, place, sentences

    request = Request(arguments, ctx.meta[KIND], cwd=str(Path.cwd()), timeout=time)
    if (other is None) == (words is None):
        raise UsageError("compare needs one of --with and --with-args")
    meant = other_arguments(words) if words is not None else against(other or "", Path.cwd())
    if meant.is_same:
        say(f"no difference: no Python file is another one {meant.second}")
        raise typer.Exit(0)
    try:
        with stoppable() as stop, Waiting() as waiting:
            if not unkept:
                check_ways(request)
            waiting.announce(
                f"running {Path(arguments[0]).name} up to three times, apart from your files, for its first {steps} "
                f"step{'s' * (steps > 1)} (at most {time:.0f} s each)",
                what="comparing",
            )
            found = compared(request, meant, steps, stop, unkept)
        stop.check()
    except CannotIsolate as e:
        raise UsageError(f"nothing was run: {e} (--unkept runs it all the same)") from e
    told = [*sentences(found, meant), *(_reasons(found.seen) if found.seen is not None and found.differs else ())]
    for line in told:
        say(line)
    span = place(found.parting) if found.parting is not None else None
    if span is not None:
        _draw(span)
    for one in wanted:
        _write(f"{json.dumps(as_json(found, meant, told), indent=2)}\n", one.file)
    raise typer.Exit(1 if found.differs else 2 if found.untold else 0)


def _reasons(seen: Evidence) -> Iterator[str]:
    """Why ranks train apart, as ``graphdoc run`` tells it of the program as given."""
    from graphdoc.diagnose import diagnose

    for found in diagnose(seen).diagnoses:
        if found.cause == "gradients-not-averaged":
            line = next((f" (line {s.line})" for s in found.spans if s.role == "cause"), "")
            yield f"as given, {found.title}{line}: `graphdoc explain {found.code}` tells more"


def _draw(span: Span) -> None:
    """The place in the source, as reports show one."""
    from graphdoc.documents import decode, read_source
    from graphdoc.render.options import terminal_options
    from graphdoc.render.snippet import snippet
    from graphdoc.render.underlines import paint

    if sys.stderr is None:
        return
    data = read_source(span.file)
    width, color = terminal_options(sys.stderr)
    rows = snippet([span], span, {} if data is None else {span.file: decode(data)}, width, len(str(span.end_line)))
    put(paint(rows, color=color), sys.stderr, styled=True)


def _write(text: str, file: Path | None) -> None:
    from graphdoc.files import write_whole

    if file is None:
        put(text, sys.stderr)
        return
    try:
        write_whole(file, text.encode())
    except OSError as e:
        raise UsageError(f"cannot write {file}: {e.strerror or e}") from e
