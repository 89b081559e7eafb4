"""Which ways of isolation there are for a program on this system, best first."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graphdoc.launch import is_disabled
from graphdoc.launch.interpreter import hook_works, options

if TYPE_CHECKING:
    from graphdoc.launch import Request

Way = Literal["namespaces", "layer", "open"]

SWITCH = "GRAPHDOC_ISOLATION"
"""For the tests: one way (``none``: no way) in the place of all that there are. Read by the parent alone."""


def ways(request: Request) -> list[Way]:
    """The ways to try for this request, in their order; empty where none can hold."""
    possible: list[Way] = ["namespaces"] if sys.platform.startswith("linux") else []
    if _python_alone(request) and not is_disabled():  # else no hook is there to lay it
        possible.append("layer")
    wanted = os.environ.get(SWITCH)
    return [w for w in possible if w == wanted] if wanted else possible


def _python_alone(request: Request) -> bool:
    """Whether the program is Python from its first instruction on, and a Python that loads the start-up hook."""
    if request.kind != "command":
        return hook_works(options())
    path = shutil.which(request.command[0])
    if path is None:
        return False
    if Path(path).name.startswith("python"):
        return hook_works(options(request.command[1:]))
    try:
        with open(path, "rb") as stream:
            words = stream.readline(500).decode(errors="replace").split()
    except OSError:
        return False
    names = [number for number, word in enumerate(words) if Path(word.lstrip("#!")).name.startswith("python")]
    return bool(words) and words[0].startswith("#!") and bool(names) and hook_works(words[names[0] + 1 :])
