"""``graphdoc runs``: the runs that are kept in this folder, with the names by which other commands take them."""

from __future__ import annotations

import json
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphdoc.cli.output import put
from graphdoc.errors import UsageError

if TYPE_CHECKING:
    from graphdoc.launch.keep import Kept

_WIDEST = 60
"""Characters of a command line, and of what a run ended with."""


def _names() -> list[str]:
    """What a shell completes in the place of RUN, beside files."""
    from graphdoc.launch.folders import kept_runs

    return list(kept_runs(Path.cwd()))


RUN = typer.Argument(
    metavar="RUN",
    help="A name that `graphdoc runs` lists, a run's folder or an evidence file; else the last run.",
    autocompletion=_names,
)
"""The argument of commands that look at one kept run."""


def command(
    fmt: Annotated[str, typer.Option("--format", metavar="table|json", help="How to list them.")] = "table",
) -> None:
    """List the runs that are kept in this folder, the newest first. `graphdoc show RUN` and `graphdoc fix RUN` take the
    name in the first column; without one they take the newest run."""
    if fmt not in ("table", "json"):
        raise UsageError(f"unknown format {fmt!r}; the formats are table, json")
    from graphdoc.launch.folders import kept_runs

    rows = [_row(name, folder) for name, folder in kept_runs(Path.cwd()).items()]
    if fmt == "json":
        text = json.dumps(rows, indent=2) + "\n"
    else:
        wide = max((len(_words(row)) for row in rows), default=0)
        text = "".join(_line(row, min(wide, _WIDEST)) for row in rows) or "No run is kept in this folder.\n"
    put(text, sys.stdout)


def _row(name: str, folder: Path) -> dict[str, Any]:
    """What is told of one run; of a record that cannot be read only where it lies."""
    from graphdoc.launch.keep import open_run
    from graphdoc.redaction import redact_words

    began = datetime.strptime(folder.name.partition("-")[0], "%Y%m%dT%H%M%S.%f").isoformat(" ", "seconds")
    row: dict[str, Any] = {"run": name, "began": began, "folder": str(folder)}
    try:
        kept = open_run(folder, Path.cwd())
    except UsageError:
        return {**row, "exit_status": None, "command": [], "ended_with": "the record cannot be read"}
    words = {"script": [], "module": ["-m"], "command": ["--"]}[kept.request.kind]
    command = redact_words([*words, *kept.request.command])
    return {**row, "exit_status": kept.exit_status, "command": command, "ended_with": _ended_with(kept)}


def _ended_with(kept: Kept) -> str:
    """The exception that ended the run, or that something was seen in one that went on; empty where nothing was."""
    from graphdoc.evidence import EvidenceError
    from graphdoc.heads import Head, read_head
    from graphdoc.redaction import redact

    heads: list[Head] = []
    for file in kept.evidence:
        try:
            heads.append(read_head(file))
        except EvidenceError:
            continue
    raised = next((h.raised for h in heads if h.uncaught), None)
    if raised is not None:
        return redact(f"{raised.type}: {raised.message}")
    return "something was seen: `graphdoc show`" if any(h.signed for h in heads) else ""


def _words(row: dict[str, Any]) -> str:
    """The command line of a run."""
    from graphdoc.render.text import flat

    return flat(shlex.join(row["command"]))


def _line(row: dict[str, Any], wide: int) -> str:
    from graphdoc.render.text import clip, flat

    status = "?" if row["exit_status"] is None else row["exit_status"]
    ended = clip(flat(row["ended_with"]), _WIDEST)
    return (
        f"{row['run']}  {row['began']}  exit {status:<3}  {clip(_words(row), _WIDEST):<{wide}}  {ended}".rstrip() + "\n"
    )
