"""``graphdoc doctor``: what graphdoc finds here, and what that means; each line is looked up, not assumed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import typer

from graphdoc.cli.output import put
from graphdoc.errors import UsageError
from graphdoc.version import __version__

_OLDEST = (2, 6)
"""The first torch that graphdoc knows."""


def command() -> None:
    """Tell what graphdoc finds here: Python, torch, isolation, git, settings. Ends with 1 where one is missing."""
    found = list(_findings())
    put("".join(f"{'ok' if good else '!!'}  {line}\n" for good, line in found), sys.stdout)
    raise typer.Exit(int(not all(good for good, _ in found)))


def _findings() -> Iterator[tuple[bool, str]]:
    """One line for each thing, and whether it is as it should be."""
    yield True, f"graphdoc {__version__}, Python {platform.python_version()}: {sys.executable}"
    yield _torch()
    yield _isolation()
    yield _git()
    yield _settings()


def _torch() -> tuple[bool, str]:
    if importlib.util.find_spec("torch") is None:
        return False, "torch: none in this Python; install graphdoc where the program's torch is"
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return True, "torch: of an unknown version, outside of any installation"
    old = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit()) < _OLDEST
    return not old, f"torch {version}{', older than the first that graphdoc knows, 2.6' if old else ''}"


def _isolation() -> tuple[bool, str]:
    """A program that writes a file is run as a trial is: the file must not be there afterwards."""
    from graphdoc.launch import Request
    from graphdoc.launch.isolation.apart import CannotIsolate, launch_apart
    from graphdoc.launch.isolation.stopping import stoppable

    with tempfile.TemporaryDirectory(prefix="graphdoc-doctor-") as name:
        folder, out = Path(name) / "program", Path(name) / "out"
        folder.mkdir()
        out.mkdir()
        (folder / "writes.py").write_text("open('left', 'w').write('x')\n")
        try:
            with stoppable() as stop:
                ended = launch_apart(Request(["writes.py"], cwd=str(folder), timeout=30, quiet=True), out, stop)
        except CannotIsolate as e:
            return False, f"trials: {e}; `graphdoc fix --verify` runs them all the same"
        if ended.exit_status or (folder / "left").exists():
            return False, f"trials: a program that wrote a file ended with {ended.exit_status}, or left it there"
    return True, "trials: kept apart, what a program writes in one is thrown away"


def _git() -> tuple[bool, str]:
    from graphdoc.project import git_top, project_root

    top = git_top(Path.cwd())
    if top is not None:
        return True, f"project: the git repository {top}; `graphdoc fix --diff | git apply`"
    return True, f"project: {project_root(Path.cwd())}, no git repository; `graphdoc fix --diff | patch -p1`"


def _settings() -> tuple[bool, str]:
    from graphdoc.cli.arguments import find

    try:
        file, settings = find(Path.cwd())
    except UsageError as e:
        return False, f"settings: {e}"
    return True, f"settings: {file} ({', '.join(settings) or 'empty'})" if file is not None else "settings: none"
