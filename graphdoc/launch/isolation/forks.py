"""Runs of one program out of one interpreter that has imported torch, and whether that cannot be told."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from graphdoc.documents import read_source
from graphdoc.launch import Request, as_words, hook_works, interpreter_options
from graphdoc.launch.isolation.server import SWITCH
from graphdoc.launch.isolation.stopping import Stop

# What a program imports before torch, and whether it does anything else before, read off its source.


def imported_first(request: Request) -> list[str] | None:
    """What the program imports before torch, of other packages; None where it does anything else before, or may.

    Modules of the standard library count as nothing: importing them changes nothing that torch's import depends on.
    Whether the others can be shared is seen when they are imported (``server.py``).
    """
    before: list[str] = []
    for file, text in _sources(request):
        found = _header(text, before) if text is not None else None
        if found is None or any(_lies_beside(file, name) for name in before):
            return None
        if found:
            return before
    return None


def _sets_variables(request: Request) -> bool:
    """Whether the program may set variables by which torch's later modules are configured as they are imported."""
    return any(word in (text or "") for _, text in _sources(request) for word in ("environ", "putenv"))


def _lies_beside(file: Path, name: str) -> bool:
    top = name.partition(".")[0]
    return any((folder / entry).exists() for folder in file.parents[:2] for entry in (top, f"{top}.py"))


def _sources(request: Request) -> Iterator[tuple[Path, str | None]]:
    """The files that Python executes for this program, each with its text."""
    texts = {Path(path).resolve(): text for path, text in (request.patches or {}).items()}
    for file in _files(request):
        yield file, _text(file, texts)


def _files(request: Request) -> list[Path]:
    """The files that Python executes for this program, in their order: of a module its packages first."""
    cwd = Path(request.cwd or ".").absolute()
    if request.kind == "script":
        return [cwd / request.command[0]]
    if request.kind != "module" or sys.flags.safe_path:
        return []
    *packages, name = request.command[0].split(".")
    files = []
    folder = cwd
    for package in packages:
        folder = folder / package
        files.append(folder / "__init__.py")
    return [*files, folder / f"{name}.py"]


def _text(file: Path, texts: Mapping[Path, str]) -> str | None:
    try:
        resolved = file.resolve()
        if resolved in texts:
            return texts[resolved]
        data = read_source(str(resolved))
        return None if data is None else data.decode("utf-8")
    except (OSError, ValueError, RuntimeError):
        return None


def _header(text: str, before: list[str]) -> bool | None:
    """True where torch is imported first (what comes before is added to ``before``), False where nothing is done."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        else:
            return None
        for name in names:
            top = name.partition(".")[0]
            if top == "torch":
                return True
            if top not in sys.stdlib_module_names:
                before.append(name)
    return False


# Runs of one program out of one interpreter that has imported torch, where that cannot be told from starting it anew.
# Only the import is shared: each run has layers, network and processes of its own, as one that is started anew has.

_TICK = 0.03
_LONGEST = 60.0
"""Seconds that the import of torch may take before each run is started anew after all."""


class Forks:
    """The interpreter, started at the first run that can come out of it. Use as a context manager.

    ``later`` are modules of torch's that the program is known to import by its first step. Runs may go on side by side,
    each asked for by a thread of its own; the interpreter itself is started by the main one, with which it ends.
    """

    def __init__(self, later: Sequence[str] = ()) -> None:
        self.why = ""
        """Why no run can come out of it; empty as long as that is not known."""
        self.runs = 0
        """How many have come out of it."""
        self._later = list(later)
        self._server: subprocess.Popen[bytes] | None = None
        self._key: tuple[Any, ...] = ()
        self._control = self._reply = -1
        self._printed: list[int] = []
        self._sending = threading.Lock()

    def __enter__(self) -> Forks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(
        self, request: Request, environment: Mapping[str, str], given: Mapping[str, Any], stop: Stop
    ) -> Fork | None:
        """Start a run that is kept apart as ``given`` says (see ``keeper.py``); None where it has to be started anew.

        Raises:
            Interrupted: ``stop`` was told to.
        """
        before = imported_first(request)
        if self.why or before is None or request.kind == "command" or not hook_works(interpreter_options()):
            return None
        key = (as_words(request), given["cwd"], before)
        if self._server is None and threading.current_thread() is threading.main_thread():
            self._key = key
            if _sets_variables(request):
                self._later = []
            self._serve(environment, given["cwd"], before, stop, request.timeout or _LONGEST)
        if self._server is None or self._key != key or self.why:
            return None
        pipes = {name: os.path.join(given["scratch"], name) for name in ("printed", "told")}
        for place in pipes.values():
            os.mkfifo(place, 0o600)
        stream = os.open(pipes["printed"], os.O_RDWR)  # to read; as a writer too it never seems to be at its end
        told = os.open(pipes["told"], os.O_RDONLY | os.O_NONBLOCK)
        try:
            self._send({**given, **pipes, "environment": dict(environment)})
            pid = self._line(told, stop)
        except OSError:
            pid = ""
        except BaseException:
            os.close(told)
            os.close(stream)
            raise
        if not pid:
            os.close(told)
            os.close(stream)
            self._give_up("the interpreter that was to become the program has ended")
            return None
        self.runs += 1
        return Fork(told, int(pid), stream)

    def close(self) -> None:
        """End the interpreter."""
        for number in (self._control, self._reply, *self._printed):
            if number >= 0:
                os.close(number)
        self._control = self._reply = -1
        self._printed.clear()
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def _serve(self, environment: Mapping[str, str], cwd: str, before: list[str], stop: Stop, seconds: float) -> None:
        control, self._control = os.pipe()
        self._reply, reply = os.pipe()
        printed, out = os.pipe()  # what the import prints is nobody's; a pipe, as that of the runs is
        self._printed = [printed]
        asked = json.dumps([control, reply, os.getpid(), before, self._later])
        try:
            self._server = subprocess.Popen(
                self._key[0],
                cwd=cwd,
                env={**environment, SWITCH: asked},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                pass_fds=(control, reply),
            )
        except OSError as e:
            self._give_up(str(e))
        finally:
            for number in (control, reply, out):
                os.close(number)
        if self._server is not None:
            told = self._line(self._reply, stop, min(seconds, _LONGEST))
            if told != "ready":
                self._give_up(told or "torch was not imported in time")

    def _give_up(self, why: str) -> None:
        self.why = why
        self.close()

    def _send(self, given: Mapping[str, Any]) -> None:
        data = json.dumps(given).encode() + b"\n"
        with self._sending:
            while data:
                data = data[os.write(self._control, data) :]

    def _line(self, told: int, stop: Stop, seconds: float = _LONGEST) -> str:
        """What the interpreter says next; empty where it does not within this time."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and self._server is not None and self._server.poll() is None:
            stop.check()
            if _says(told, _TICK):
                return _next_line(told)
        return _next_line(told) if _says(told, 0.0) else ""


def _says(told: int, seconds: float) -> bool:
    """Whether there is something to hear within this time."""
    return bool(select.select([told], [], [], seconds)[0])


def _next_line(told: int) -> str:
    """The next line; empty where the interpreter has ended."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(told, 1)
        if not part:
            return ""
        line += part
    return line.decode(errors="replace").strip()


class Fork:
    """One run: what ``subprocess.Popen`` is to a keeper that is started anew. ``told`` is where its end is told."""

    def __init__(self, told: int, pid: int, stream: int) -> None:
        self._told = told
        self.pid = pid
        self.stdout = os.fdopen(stream, "rb", buffering=0)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, or minus the signal's number; None while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        while (status := self._look(_TICK)) is None:
            if limit is not None and time.monotonic() > limit:
                raise subprocess.TimeoutExpired("", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal to the process that stands above the run."""
        if self.returncode is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process that stands above the run; the kernel ends the run."""
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float) -> int | None:
        if self.returncode is None and _says(self._told, seconds):
            told = _next_line(self._told)
            self.returncode = int(told) if told else -int(signal.SIGKILL)
            os.close(self._told)
        return self.returncode
