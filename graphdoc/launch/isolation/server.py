"""Imports torch once and becomes, in forks of itself, each run of one program; loaded by the start-up hook.

This is the program's own interpreter: its command line, options and folder, stopped before it has looked for the
script. A fork goes on from there, so Python itself starts the program. What the program would have done before its own
``import torch`` is looked at in ``forks.py``; what this process has become by it, here. Standard library only.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SWITCH = "GRAPHDOC_SERVE"
"""The variable that asks for it: a JSON list of the numbers of two pipes and of the process at their other end, of the
modules to import before torch, and of those behind it."""
_OBSERVING = ("witness", "audit")
"""The modules of the capture that every run loads."""
_TICK = 0.02
"""Seconds between two looks at whether a run has ended."""


def serve(keeper: ModuleType, known: set[str], capture: Callable[[], ModuleType]) -> None:
    """Answer requests for runs, of which several may go on at once. Returns in the forks alone, each of which is then
    the program of one run.

    ``known`` are the modules that every Python has loaded by now, and ``capture`` loads what observes each run.
    """
    control, reply, parent, before, later = json.loads(os.environ.pop(SWITCH))
    keeper._tie(parent, 15)
    given_first = dict(os.environ)
    why = _import_torch(before, known, later, capture)
    os.write(reply, f"{why or 'ready'}\n".encode(errors="replace"))
    if why:
        os._exit(0)
    imports = {name: value for name, value in os.environ.items() if given_first.get(name) != value}
    running: dict[int, int] = {}
    # No buffer: what one fork has read ahead would be lost to the others.
    with open(control, "rb", buffering=0, closefd=False) as requests:
        while True:
            if select.select([control], [], [], _TICK if running else None)[0]:
                line = requests.readline()
                if not line:
                    os._exit(0)
                given = json.loads(line)
                given["parent"] = os.getpid()
                told = os.open(given["told"], os.O_WRONLY)
                sys.stdout.flush()
                sys.stderr.flush()
                child = os.fork()
                if child == 0:
                    requests.close()
                    for number in (control, reply, told, *running.values()):
                        os.close(number)
                    own = given["environment"]
                    own.update({n: v for n, v in imports.items() if own.get(n) == given_first.get(n)})
                    _become(given, keeper)
                    return
                running[child] = told
                _tell(told, child)
            for child, status in _ended(running):
                told = running.pop(child)
                _tell(told, os.waitstatus_to_exitcode(status))
                os.close(told)


def _ended(running: Iterable[int]) -> list[tuple[int, int]]:
    looked = [os.waitpid(child, os.WNOHANG) for child in running]
    return [(child, status) for child, status in looked if child]


def _tell(told: int, number: int) -> None:
    try:
        os.write(told, f"{number}\n".encode())
    except OSError:
        pass  # nobody waits for it any more


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


def _import_torch(
    before: Sequence[str], known: set[str], later: Sequence[str] = (), capture: Callable[[], ModuleType] | None = None
) -> str:
    """Import what the program imports first, ``later`` what it is known to import of torch by its first step, and what
    observes it; why its forks would not be what the program is by itself, if so."""
    for name in ("sitecustomize", "usercustomize"):
        if PathFinder.find_spec(name, sys.path) is not None:
            return f"{name} is to run before the program"
    from importlib.metadata import entry_points

    if entry_points(group="torch.backends"):
        return "torch loads a back end from elsewhere"
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        why = _import_others(before)
        for name in () if why else ("torch", *later):
            importlib.import_module(name)
        if capture is not None and not why:
            for name in _OBSERVING:
                importlib.import_module(f"{capture().__name__}.{name}")
    except BaseException as e:
        why = f"torch cannot be imported: {type(e).__name__}: {e}".splitlines()[0]
    finally:
        sys.dont_write_bytecode = writes
    return (
        why
        or _shadowed({name.partition(".")[0] for name in set(sys.modules) - known})
        or _written_to()
        or _device()
        or _threads()
    )


_OUTSIDE = ("os.", "subprocess.", "socket.", "shutil.", "sqlite3.", "fcntl.", "pty.", "syslog.", "signal.", "tempfile.")
_HARMLESS = frozenset(
    ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.putenv", "os.unsetenv", "socket.gethostname")
)
"""Audit events (Python's table of them): others of those families can be noticed outside of the process."""


def _import_others(names: Sequence[str]) -> str:
    """Import packages in the program's order; why one is not to be shared, if so.

    No layer is there yet. So one that would reach out of the process, or that keeps a file open, is held back from it,
    and is left to each run, as are those that are no installed packages (a patch may change them) or that import torch.
    """
    if not names:
        return ""
    trouble: list[str] = []
    importing = True

    def audited(event: str, args: tuple[Any, ...]) -> None:
        if not importing:
            return
        writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
        if (writes and args[0] != os.devnull) or (event.startswith(_OUTSIDE) and event not in _HARMLESS):
            trouble.append(event)
            raise PermissionError(event)

    known, opened, main = set(sys.modules), len(_open_files()), vars(sys.modules["__main__"])
    sys.addaudithook(audited)
    try:
        if sys.argv[0] != "-m":
            main["__file__"] = sys.argv[0]  # by which packages know that nobody types commands
        for name in names:
            importlib.import_module(name)
    except Exception:
        if not trouble:
            raise
    finally:
        importing = False
        main.pop("__file__", None)
    others = {name: module for name, module in list(sys.modules.items()) if name not in known}
    if trouble:
        return f"what it imports before torch reaches out of the process ({trouble[0]})"
    if "torch" in others:
        return "what it imports before torch imports torch"
    if len(_open_files()) != opened:
        return "what it imports before torch keeps a file open"
    tops = {name.partition(".")[0] for name in names}
    own = sorted(n for n, m in others.items() if n.partition(".")[0] in tops and not _is_installed(m))
    return f"{own[0]} is no installed package" if own else ""


def _is_installed(module: ModuleType) -> bool:
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    parts = [set(os.path.realpath(place).split(os.sep)) for place in places if isinstance(place, str)]
    return all(part & {"site-packages", "dist-packages"} for part in parts)


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
