"""Run a script as ``python SCRIPT`` would, in a fork of this process, which has paid for ``import torch`` already."""

from __future__ import annotations

import atexit
import builtins
import ctypes
import gc
import importlib
import io
import os
import pkgutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.abc import SourceLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import NoReturn
from unittest.mock import patch

from greenlet import greenlet

from graphdoc.capture.places.code_places import users_modules

# Before torch and numpy are loaded: a process that has started worker threads is not safe to fork.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

PRELOADED = ("torch", "torch.distributions", "torch._dynamo", "gymnasium", "gymnasium.envs.classic_control.cartpole")


@dataclass(frozen=True)
class Result:
    """How a forked script ended. ``status`` is its exit status, or minus the signal's number."""

    status: int
    stdout: str
    stderr: str


def run_forked(
    path: str | os.PathLike[str],
    args: Sequence[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    setup: Callable[[], None] | None = None,
    *,
    given: str = "",
    timeout: float = 300.0,
    enough: Callable[[], bool] | None = None,
) -> Result:
    """Run the script ``path`` with ``args`` in the folder ``cwd`` (the script's own by default).

    With ``cwd`` a relative path is looked for there, and its frames name it so. ``setup`` is called in the child before
    the script starts; it may be a closure, but what it changes stays in the child. ``given`` stands on standard input.
    ``enough`` says, asked over and over, when the child may be killed. Raises TimeoutError after ``timeout`` seconds.
    """
    script = Path(path) if cwd else Path(path).resolve()
    _prepare()
    if (text := Path(cwd or ".", script)).is_file() and b"torch.compile" in text.read_bytes():
        _prepare_compiler()
    # The runner has imported every file of tests; to a script's run they would be more files of the user's. They are
    # looked for here: a look at a module is a write to it, for which a child would copy the page that it lies in.
    of_tests = [name for name in list(sys.modules) if _is_of_tests(name)]
    users_modules()
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        read.write(given.encode())
        read.seek(0)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            streams = [read.fileno(), out.fileno(), err.fileno()]
            _child(script, list(args), Path(cwd or script.parent), setup, of_tests, streams)
        status = _wait(pid, timeout, enough)
        out.seek(0)
        err.seek(0)
        return Result(status, out.read().decode(errors="replace"), err.read().decode(errors="replace"))


@cache
def _prepare() -> None:
    """Import once what every child would import, the capture too, which is installed in the child alone."""
    for module in PRELOADED:
        importlib.import_module(module)
    capture = importlib.import_module("graphdoc.capture")
    for found in pkgutil.walk_packages(capture.__path__, "graphdoc.capture."):
        importlib.import_module(found.name)
    # What an installed capture makes of torch's functions, and asks of its files, is made and asked once.
    with tempfile.TemporaryDirectory() as out, patch.dict(vars(warnings)):
        exec(_warnings_code(), vars(warnings))
        capture.begin(out).undo()
        capture.forget()
    # The names of modules lie side by side, for a child that looks at them all.
    modules = {"".join(list(name)): module for name, module in sys.modules.items()}
    sys.modules.clear()
    sys.modules.update(modules)
    torch = importlib.import_module("torch")
    torch.overrides.resolve_name(None)  # it lists all of torch's functions
    torch.optim.SGD([torch.ones(1)], 0.1).zero_grad()  # what an optimizer does first loads more of torch
    # A collection in a child writes to every object that it looks at, and so would copy nearly all of this memory.
    gc.collect()
    gc.freeze()
    _in_large_pages()


@cache
def _prepare_compiler() -> None:
    """Import once what a first compiled function imports, without the processes that it would compile in."""
    with patch.dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1"), warnings.catch_warnings(action="ignore"):
        importlib.import_module("torch._inductor.compile_fx")
    gc.collect()
    gc.freeze()


@cache
def _warnings_code() -> CodeType:
    """What Python's own module of warnings is made of: run once more, it forgets what this runner has put there."""
    assert isinstance(warnings.__loader__, SourceLoader)
    code = warnings.__loader__.get_code("warnings")
    assert code is not None
    return code


def _in_large_pages() -> None:
    """Lay this process's memory into pages of 2 MB where Linux can: a fork copies their table, and its end clears it.
    Where Linux refuses, all is as before."""
    advise, size = ctypes.CDLL(None).madvise, 2 << 20
    for line in Path("/proc/self/maps").read_text().splitlines() if sys.platform == "linux" else ():
        span, rights, *_, name = [*line.split(), ""][:6]
        if rights.startswith("rw") and name in ("", "[heap]"):
            first, end = (int(x, 16) for x in span.split("-"))
            first, end = -(-first // size) * size, end // size * size
            if end > first:
                advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), 25)  # MADV_COLLAPSE


def _wait(pid: int, timeout: float, enough: Callable[[], bool] | None) -> int:
    deadline = time.monotonic() + timeout
    while True:
        done, raw = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(raw)
        if enough is not None and enough():
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise TimeoutError(f"the forked script ran for more than {timeout:g} s")
        time.sleep(0.005)


def _child(
    script: Path,
    args: list[str],
    cwd: Path,
    setup: Callable[[], None] | None,
    of_tests: list[str],
    streams: Sequence[int],
) -> NoReturn:
    status = 70  # EX_SOFTWARE: this helper itself failed
    try:
        for target, source in enumerate(streams):
            os.dup2(source, target)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), errors="backslashreplace", write_through=True)
        # The test runner's own hooks and warning filters are not the script's.
        atexit._clear()
        exec(_warnings_code(), vars(warnings))
        sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
        threading.excepthook = threading.__excepthook__
        for name in of_tests:
            del sys.modules[name]
        os.chdir(cwd)
        sys.argv = [str(script), *args]
        sys.path.insert(0, str(script.parent))
        if setup is not None:
            setup()
        status = _run(script)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)  # never back into the test runner


@cache
def _is_of_tests(name: str) -> bool:
    return (getattr(sys.modules[name], "__file__", None) or "").startswith(str(Path(__file__).parent))


def _run(script: Path) -> int:
    """Run the script as Python runs one: the module ``__main__``, with no frame of ours below it."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=str(script), __builtins__=builtins)
    sys.modules["__main__"] = module
    try:
        code = compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
        greenlet(exec).switch(code, module.__dict__)
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return (leaving.code or 0) & 0xFF
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as error:
        error = error.with_traceback(_from_script(error.__traceback__, script))
        # As PyErr_Print does before it calls the hook; what runs at exit may look there.
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _from_script(trace: TracebackType | None, script: Path) -> TracebackType | None:
    """The traceback without the frames of this helper; None where the script has no frame in it."""
    while trace is not None and trace.tb_frame.f_code.co_filename != str(script):
        trace = trace.tb_next
    return trace
