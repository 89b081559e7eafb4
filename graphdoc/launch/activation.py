"""GRAPHDOC_OBSERVE=/a/folder: observes Python programs that nobody can start with ``graphdoc run``.

For launchers that cannot be wrapped (SLURM, Ray, a container's entry point). A ``.pth`` file beside the installed
package calls ``start`` when Python starts and the variable is set; it runs before ``sitecustomize`` is looked for
(``site.main``), so the start-up hook is put in its place and all else is as in ``graphdoc run -- COMMAND``. What the
processes leave in the folder is read with ``graphdoc show FOLDER``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from graphdoc.launch import HOOK, OBSERVE, Request, as_environment, observes
from graphdoc.launch.folders import private_folder
from graphdoc.launch.keep import expect

_RANKS = ("WORLD_SIZE", "SLURM_NTASKS")
"""Say how many processes the job has: one of them alone would wait for the others."""

_asked: list[str] = []
"""What the variable held when ``start`` was called: in a virtual environment ``site`` reads each .pth file twice."""


def start() -> None:
    """Let this process and its children be observed, or say in one line on stderr why not. Never raises."""
    value = os.environ.get(OBSERVE, "")
    if _asked:
        return
    _asked.append(value)
    if not value or "GRAPHDOC_OUT" in os.environ or sys.flags.ignore_environment or _is_graphdoc():
        return
    folder = Path(value)
    try:
        reason = refusal(folder)
        if reason:
            _say(f"not observed, because {reason}")
        elif observes(folder):
            request = Request([sys.executable, *sys.orig_argv[1:]], "command", cwd=os.getcwd())
            expect(folder, request, rerun=all(os.environ.get(name, "1") in ("", "1") for name in _RANKS))
            # Each machine of a job starts its own processes: only with its name are their numbers unique.
            os.environ.update({**as_environment(request, folder), "GRAPHDOC_HOST": ""})
            sys.path.insert(0, str(HOOK))
    except Exception as e:
        _say(f"not observed: {type(e).__name__}: {e}")


def refusal(folder: Path) -> str:
    """Why nothing may be observed into this folder, or an empty string; it is made where it is not there."""
    if not folder.is_absolute():
        return f"{OBSERVE} is to be an absolute path, and is {str(folder)!r}"
    if hasattr(os, "getuid") and (os.getuid() != os.geteuid() or os.getgid() != os.getegid()):
        return "this process has other rights than the user who has started it"
    if not private_folder(folder):
        return f"{folder} cannot be made, belongs to another user, or others can write into it"
    return ""


def _is_graphdoc() -> bool:
    """Whether this is a command of our own, about to read what others have left."""
    words = sys.orig_argv[1:]
    named = words[words.index("-m") + 1 : words.index("-m") + 2] if "-m" in words else sys.argv[:1]
    return any(os.path.basename(word).partition(".")[0] == "graphdoc" for word in named)


def _say(line: str) -> None:
    if sys.stderr is not None:
        print(f"graphdoc: {line}", file=sys.stderr)
