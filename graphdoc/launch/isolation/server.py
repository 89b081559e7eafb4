"""Imports torch once and becomes, in forks of itself, each run of one program; loaded by the start-up hook.

This is the program's own interpreter: its command line, options and folder, stopped before it has looked for the
script. A fork goes on from there, so Python itself starts the program. What the program would have done before its own
``import torch`` is looked at in ``forks.py``; what this process has become by it, here. Standard library only.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

SWITCH = "GRAPHDOC_SERVE"
"""The variable that asks for it: a JSON list of the numbers of two pipes and of the process at their other end, and of
the modules to import before torch."""


def serve(keeper: ModuleType, known: set[str]) -> None:
    """Answer requests for runs. Returns in the forks alone, each of which is then the program of one run.

    ``known`` are the modules that every Python has loaded by now.
    """
    control, reply, parent, *before = json.loads(os.environ.pop(SWITCH))
    keeper._tie(parent, 15)
    why = _import_torch(before, known)
    os.write(reply, f"{why or 'ready'}\n".encode(errors="replace"))
    if why:
        os._exit(0)
    # No buffer: what one fork has read ahead would be lost to the others.
    with open(control, "rb", buffering=0, closefd=False) as requests:
        for line in requests:
            given = json.loads(line)
            given["parent"] = os.getpid()
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if child == 0:
                requests.close()
                os.close(control)
                os.close(reply)
                _become(given, keeper)
                return
            os.write(reply, f"{child}\n".encode())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.write(reply, f"{status}\n".encode())
    os._exit(0)


def _become(given: dict[str, Any], keeper: ModuleType) -> None:
    """In a fork: stand above the run, and return in the program, in which nothing of this is left."""
    try:
        os.setsid()
        printed = os.open(given["printed"], os.O_WRONLY)
        for number in (1, 2):
            os.dup2(printed, number)
        os.close(printed)
        environment = given["environment"]
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        for name, value in environment.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
        known, path, opened = set(sys.modules), list(sys.path), set(_open_files())
        given["words"] = []
        keeper.keep(given)
        sys.path[:] = path
        sys.path_importer_cache.pop(os.path.dirname(os.path.abspath(__file__)), None)
        for name in set(sys.modules) - known:
            if _is_ours(sys.modules[name]):
                del sys.modules[name]
        for number in set(_open_files()) - opened:
            try:
                os.close(number)
            except OSError:
                pass  # the one by which they were listed
    except BaseException as e:
        os.write(2, f"{type(e).__name__}: {e}\n".encode(errors="replace"))
        os._exit(127)


def _is_ours(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and os.path.dirname(file) == os.path.dirname(os.path.abspath(__file__))


def _open_files() -> list[int]:
    return [int(number) for number in os.listdir("/proc/self/fd")]


def _import_torch(before: Sequence[str], known: set[str]) -> str:
    """Import what the program imports first; why its forks would not be what the program is by itself, if so."""
    for name in ("sitecustomize", "usercustomize"):
        if PathFinder.find_spec(name, sys.path) is not None:
            return f"{name} is to run before the program"
    from importlib.metadata import entry_points

    if entry_points(group="torch.backends"):
        return "torch loads a back end from elsewhere"
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        for name in (*before, "torch"):
            importlib.import_module(name)
    except BaseException as e:
        return f"torch cannot be imported: {type(e).__name__}: {e}".splitlines()[0]
    finally:
        sys.dont_write_bytecode = writes
    return (
        _shadowed({name.partition(".")[0] for name in set(sys.modules) - known})
        or _written_to()
        or _device()
        or _threads()
    )


def _shadowed(names: Iterable[str]) -> str:
    """Whether a file of the program's has the name of a module that was imported before Python knew of its folder."""
    if sys.flags.safe_path:
        return ""
    # As pymain_run_python puts it in front of the search path: of -m it is the working directory.
    folder = os.getcwd() if sys.argv[0] == "-m" else os.path.dirname(os.path.realpath(sys.argv[0]))
    beside = {entry.partition(".")[0] for entry in os.listdir(folder)}
    both = sorted(beside & set(names))
    return f"{both[0]} lies beside the program" if both else ""


def _written_to() -> str:
    """Whether a file is open for writing: it would be the user's own, whatever layers a fork has."""
    import fcntl
    import stat

    for number in _open_files():
        try:
            about = os.fstat(number).st_mode
            writable = fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR)
        except OSError:
            continue
        if writable and not (stat.S_ISFIFO(about) or stat.S_ISCHR(about)):
            return "a file is open for writing"
    return ""


def _device() -> str:
    """Whether a fork could not use an accelerator because this process has (CUDA's, for one, does not survive a fork).

    Torch itself says so in a fork, from the first question to the driver on: also after ``torch.cuda.is_available()``,
    which makes no context (torch/csrc/utils/device_lazy_init.cpp, ``register_fork_handler_for_device_init``).
    """
    torch = sys.modules["torch"]
    names = [name for name in ("cuda", "xpu", "mps", "mtia") if hasattr(torch, name)]
    if any(getattr(getattr(torch, name), "is_initialized", bool)() for name in names):
        return "an accelerator is in use"
    child = os.fork()
    if child == 0:
        bad = True
        try:
            bad = any(getattr(getattr(torch, name), "_is_in_bad_fork", bool)() for name in names)
        finally:
            os._exit(bad)
    return "an accelerator is in use" if os.waitpid(child, 0)[1] else ""


def _threads() -> str:
    """Whether threads run that a fork would not have. Those of OpenBLAS end at a fork, and start again at need."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "threads run" if len(os.listdir("/proc/self/task")) > 1 else ""
