"""The options with which this Python was started, so that the program gets the same ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Literal


def options(arguments: Sequence[str] | None = None) -> list[str]:
    """The interpreter options among ``arguments`` (by default ``sys.orig_argv`` without the program name).

    Read off the command line rather than rebuilt from ``sys.flags``: environment variables such as PYTHONWARNINGS
    reach the program by themselves and must not count twice, and some options (``-u``) are in no flag.
    """
    words = list(sys.orig_argv[1:] if arguments is None else arguments)
    found: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word.startswith("--"):
            if word == "--":
                break
            found.append(word)
            if word == "--check-hash-based-pycs" and words:
                found.append(words.pop(0))
            continue
        letters, ends = "", False
        for place, letter in enumerate(word[1:], 1):
            if letter in "cm":
                ends = True
                break
            if letter in "WX":
                if letters:
                    found.append("-" + letters)
                    letters = ""
                found.append("-" + word[place:])
                if place == len(word) - 1 and words:
                    found.append(words.pop(0))
                break
            # -i would open a prompt after the program, -h and -V would replace it.
            if letter not in "ihV?":
                letters += letter
        if letters:
            found.append("-" + letters)
        if ends:
            break
    return found


def program() -> tuple[Literal["script", "module", "command"], list[str]]:
    """What this process runs, as ``graphdoc run`` would be asked for it; a command without words for ``-c`` and stdin.

    The interpreter's own options are left out: ``options`` gives them to whatever is started again.
    """
    rest = sys.argv[1:]
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name:
        return "module", [spec.name.removesuffix(".__main__"), *rest]
    script = sys.argv[0] if sys.argv else ""
    if os.path.isfile(script):
        return "script", [script, *rest]
    return "command", []


def hook_works(flags: Sequence[str]) -> bool:
    """False when these options make Python ignore the environment or skip ``site``, and so the start-up hook."""
    return not any(f[1:2] not in "WX-" and set("IES") & set(f[1:]) for f in flags)
