"""The command line as a process of its own."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from forked import run_forked
from told_in_forks import in_forks

import graphdoc as package
from graphdoc.messages.recognise import by_word

MAIN = Path(package.__file__).parent / "__main__.py"
LOADED = ("cli", "causes", "fixes", "proposals", "render", "source", "verify")
"""The rooms of what a command loads."""
_HELD = ExitStack()
"""What is in force in a forked command to its end."""


@cache
def _load() -> None:
    for name in LOADED:
        room = importlib.import_module(f"graphdoc.{name}")
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(found.name)
    by_word()


def graphdoc(
    folder: Path | None,
    *words: str,
    flags: tuple[str, ...] = (),
    given: str = "",
    forked: bool = False,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """``python FLAGS -m graphdoc WORDS`` in a folder, with ``given`` to read, away from a CI these tests may run in.

    Commands are run in a fork of this process, which has loaded what they load. But ``run``, and the program with it,
    starts as Python starts; ``forked``, both are run in forks, where a test asks only what is told of the program.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "GRAPHDOC_", "FORCE_COLOR"))}
    env |= variables
    if (forked or words[:1] != ("run",)) and not flags and not any(k.startswith("PYTHON") for k in variables):
        _load()
        done = run_forked(
            MAIN, words, folder or Path.cwd(), _surroundings(folder or Path.cwd(), env, words), given=given
        )
        return subprocess.CompletedProcess(words, done.status, done.stdout, done.stderr)
    return subprocess.run(
        [sys.executable, *flags, "-m", "graphdoc", *words],
        cwd=folder,
        env=env,
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _surroundings(folder: Path, env: dict[str, str], words: tuple[str, ...]) -> Callable[[], None]:
    """What ``python -m`` begins with: these variables, and the folder in front of the path, not that of the package."""

    def setup() -> None:
        os.environ.clear()
        os.environ.update(env)
        sys.path[0] = str(folder)
        if words[:1] == ("run",):
            _HELD.enter_context(in_forks())

    return setup
