"""Starts the user's program as Python itself would, lets the capture watch it, and tells how it ended.

The program runs in a process of its own, of the same interpreter, started with a folder in front of PYTHONPATH: that
folder's ``sitecustomize`` is all that graphdoc adds. So arguments, search path, ``__main__``, traceback and exit are
Python's own, not an imitation. Standard library only, and little of it: the program starts before anything else loads.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal

from graphdoc.documents import read_regular
from graphdoc.errors import UsageError
from graphdoc.files import is_private, spare_folder, write_private
from graphdoc.launch.scratch import end_ranks, tied

Kind = Literal["script", "module", "command"]

HOOK = Path(__file__).parent / "hook"
DISABLED = "GRAPHDOC_DISABLE is set"
NOT_STARTED = "Python was started with -I, -E or -S, which keep graphdoc's start-up hook out"
OBSERVE = "GRAPHDOC_OBSERVE"
"""Names the folder that programs are to be observed into which nobody can start with ``graphdoc run``."""
MOST_TROUBLE = 100_000
"""Bytes that are read of what the hook of one process had to say."""
_VARIABLES = (
    OBSERVE,
    "GRAPHDOC_OUT",
    "GRAPHDOC_MODE",
    "GRAPHDOC_KIND",
    "GRAPHDOC_PYTHONPATH",
    "GRAPHDOC_PATCHES",
    "GRAPHDOC_LAYER",
    "GRAPHDOC_KEEPER",
    "GRAPHDOC_SERVE",
    "GRAPHDOC_HOST",
)


@dataclass
class Request:
    """What to run. ``command`` is the script and its arguments, the module and its arguments, or a whole command.

    ``mode`` is handed to the capture: "observe" (with ":nan-stop", ":nan-off" and other words behind it),
    "probe:writes", "probe:cuts" or "verify". ``patches`` maps absolute paths to the text to run instead of the file's.
    ``timeout`` is in seconds. ``quiet`` cuts the program off from stdin, stdout and stderr and from this terminal, for
    runs that a user should not notice; all processes that it started end with it.
    """

    command: list[str]
    kind: Kind = "script"
    cwd: str | None = None
    mode: str = "observe"
    patches: dict[str, str] | None = None
    timeout: float | None = None
    quiet: bool = False
    one_thread: bool = False
    """PyTorch is to use one thread from its start on: a fork of a program with more would wait for ever."""
    patience: float = 0.0
    """How many seconds a run that is kept apart may wait for a processor on top of ``timeout``."""


@dataclass
class Ended:
    """How a program ended. ``exit_status`` is 128 + n after signal n. ``seconds`` is wall-clock time.

    ``troubles`` are lines about what could not be observed; ``evidence`` the files that its processes left. Of runs
    that graphdoc starts by itself: ``stopped`` when the program had shown enough, ``printed`` is the end of its output,
    ``refused`` what it did that could not be kept from the user's files, ``open`` when it had these and the network,
    ``waited`` the seconds for which it was ready and had no processor.
    """

    exit_status: int
    signal: int | None = None
    seconds: float = 0.0
    timed_out: bool = False
    troubles: list[str] = field(default_factory=list)
    evidence: list[Path] = field(default_factory=list)
    stopped: bool = False
    printed: str = ""
    refused: str = ""
    open: bool = False
    waited: float = 0.0


def launch(request: Request, out: Path | None) -> Ended:
    """Run the program to its end. Its processes write their evidence into ``out``; None runs it unobserved.

    Raises:
        UsageError: the command does not exist or cannot be started.
    """
    words = as_words(request)
    observed = observes(out)
    environment = as_environment(request, out if observed else None)
    if observed and out is not None and request.patches is not None:
        (out / "patches.json").write_text(json.dumps(request.patches), encoding="utf-8")
    devnull = subprocess.DEVNULL if request.quiet else None
    started = time.monotonic()
    timed_out = False
    with relay() as wait:
        try:
            process = subprocess.Popen(
                words,
                cwd=request.cwd,
                env=environment,
                stdin=devnull,
                stdout=devnull,
                stderr=devnull,
                close_fds=request.quiet,  # python train.py 3<file: the program gets what the shell opened for it
                start_new_session=request.quiet,
                preexec_fn=tied(),
            )
        except OSError as e:
            raise UsageError(f"cannot start {words[0]}: {e.strerror or e}") from e
        try:
            status = process.wait(request.timeout) if request.quiet else wait(process, request.timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _kill(process, request.quiet)
            status = process.wait()
        except BaseException:
            _kill(process, request.quiet)
            process.wait()
            raise
        if request.quiet:
            _kill(process, True)
        if request.kind == "command" and observed and out is not None:
            end_ranks(out)
    ended = Ended(status if status >= 0 else 128 - status, -status if status < 0 else None, timed_out=timed_out)
    ended.seconds = time.monotonic() - started
    if out is not None and not observed:
        ended.troubles.append(DISABLED)
    if observed and out is not None:
        collect(ended, out, request)
    return ended


def observes(out: Path | None) -> bool:
    """Whether a run with this folder for its evidence is observed."""
    return out is not None and not is_disabled()


def is_disabled() -> bool:
    """Whether the user wants nothing to be observed."""
    return os.environ.get("GRAPHDOC_DISABLE", "0") not in ("", "0")


def collect(ended: Ended, out: Path, request: Request) -> None:
    """Note what the processes of a run have left in ``out``."""
    ended.evidence, ended.troubles = recorded(out), troubles(out)
    if request.kind != "command" and not hook_works(interpreter_options()):
        ended.troubles.append(NOT_STARTED)


def end_like(ended: Ended) -> int:
    """End this process by the signal that ended the program; otherwise return the exit status to end with."""
    if ended.signal is not None:
        die_by(ended.signal)
    return ended.exit_status


def as_words(request: Request) -> list[str]:
    """The command line to start.

    Raises:
        UsageError: there is none, or no such command.
    """
    if not request.command:
        raise UsageError("nothing to run")
    if request.kind == "command":
        return [_program(request.command[0]), *request.command[1:]]
    module = ["-m"] if request.kind == "module" else []
    return [sys.executable, *interpreter_options(), *module, *request.command]


def _program(name: str) -> str:
    """The command to start: found as a shell finds it, else beside this Python (an environment not activated).

    Raises:
        UsageError: it is in neither place.
    """
    if shutil.which(name) is not None:
        return name
    beside = shutil.which(name, path=os.path.dirname(sys.executable)) if os.path.basename(name) == name else None
    if beside is None and name.endswith(".py") and os.path.isfile(name):
        raise UsageError(f"{name} is a script, not a command: `graphdoc run {name}`")
    if beside is None:
        raise UsageError(f"{name}: command not found")
    return beside


def as_environment(request: Request, out: Path | None) -> dict[str, str]:
    """This process's environment, with the hook in front of PYTHONPATH if the program is observed."""
    environment = {k: v for k, v in os.environ.items() if k not in _VARIABLES}
    path = environment.get("PYTHONPATH")
    if path is not None and path.split(os.pathsep)[0] == str(HOOK):
        # Observed ourselves (graphdoc run -- pytest, with graphdoc run in a test): one hook is enough.
        path = os.environ.get("GRAPHDOC_PYTHONPATH")
        if path is None:
            del environment["PYTHONPATH"]
        else:
            environment["PYTHONPATH"] = path
    if request.one_thread:
        environment.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    if out is None:
        return environment
    environment["PYTHONPATH"] = os.pathsep.join([str(HOOK), path]) if path else str(HOOK)
    environment["GRAPHDOC_OUT"] = str(out.absolute())
    environment["GRAPHDOC_MODE"] = request.mode
    environment["GRAPHDOC_KIND"] = request.kind
    environment["GRAPHDOC_HOST"] = os.uname().nodename if hasattr(os, "uname") else ""
    if path is not None:
        environment["GRAPHDOC_PYTHONPATH"] = path
    if request.patches is not None:
        environment["GRAPHDOC_PATCHES"] = str(out.absolute() / "patches.json")
    return environment


def _kill(process: subprocess.Popen[bytes], group: bool) -> None:
    """End the child, with its whole process group where it has its own."""
    try:
        if group and hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError:
        pass


def recorded(out: Path) -> list[Path]:
    """The evidence of a run. What could not be written there stands in for what there is, if it cannot be moved."""
    found = {file.name: file for file in out.glob("evidence-*.json")}
    spare = spare_folder(str(out))
    if is_private(spare):
        for file in Path(spare).glob("evidence-*.json"):
            found[file.name] = file
            try:
                write_private(out / file.name, file.read_bytes())
                file.unlink()
                found[file.name] = out / file.name
            except OSError:
                pass
        if not os.listdir(spare):
            os.rmdir(spare)
    return sorted(found.values(), key=lambda file: file.name)


def troubles(out: Path) -> list[str]:
    """What the hook had to say in the processes below, each thing once."""
    found: list[str] = []
    for file in sorted(out.glob("trouble-*.txt")):
        try:
            found += read_regular(file, MOST_TROUBLE).decode("utf-8", "replace").splitlines()
        except OSError as e:
            found.append(f"{file.name} cannot be read: {e.strerror}")
    return list(dict.fromkeys(line.strip() for line in found if line.strip()))


# How a child is waited for while passing on to it the signals that reach only the parent.


# Those with which terminals, schedulers and containers speak to a job. Left out: what the kernel raises for a fault.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_FROM_KEYBOARD = tuple(s for s in _SIGNALS if s.name in ("SIGINT", "SIGQUIT", "SIGHUP"))


@contextmanager
def relay() -> Iterator[Callable[[subprocess.Popen[bytes], float | None], int]]:
    """Hold back the signals meant for the program and give a function that waits for it and passes them on.

    Enter before the child is started, so that no signal falls between. The function takes the child and a limit in
    seconds (None: no limit), returns the child's ``returncode`` and raises ``subprocess.TimeoutExpired``. A signal
    that is ignored here (``nohup``) stays ignored, in the child too. Outside the main thread nothing is passed on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda process, limit: process.wait(limit)
        return
    early: list[int] = []
    child: list[subprocess.Popen[bytes]] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        if not child:
            early.append(number)
        elif not _typed(number):
            child[0].send_signal(number)

    # A handler, unlike SIG_IGN and a blocked signal, is not inherited by the program that is started.
    before = {s: signal.signal(s, receive) for s in _SIGNALS if signal.getsignal(s) is not signal.SIG_IGN}

    def wait(process: subprocess.Popen[bytes], limit: float | None) -> int:
        for number in early:
            if not _typed(number):
                process.send_signal(number)
        if hasattr(signal, "sigtimedwait"):
            return _wait_with_origin(process, limit, set(before))
        child.append(process)
        return process.wait(limit)

    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_with_origin(process: subprocess.Popen[bytes], limit: float | None, signals: set[signal.Signals]) -> int:
    """Wait where the kernel tells a signal's origin: what a terminal sends has reached the child by itself."""
    assert sys.platform != "win32" and sys.platform != "darwin"
    end = None if limit is None else time.monotonic() + limit
    watched = signals | {signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        while process.poll() is None:
            rest = 3600.0 if end is None else end - time.monotonic()
            if rest <= 0:
                raise subprocess.TimeoutExpired(process.args, limit or 0.0)
            info = signal.sigtimedwait(watched, rest)
            from_kernel = info is not None and info.si_code > 0
            if info is not None and info.si_signo != signal.SIGCHLD and not from_kernel:
                process.send_signal(info.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert process.returncode is not None
    return process.returncode


def _typed(number: int) -> bool:
    """Whether this was probably sent by the terminal, to the whole foreground group and so to the child as well."""
    if number not in _FROM_KEYBOARD:
        return False
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def die_by(number: int) -> None:
    """End this process by the signal that ended the program, as a shell expects; returns if that is not possible."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if sys.platform == "win32":
        return
    try:
        import resource

        # The program has left its own core; ours would only take its place.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    except (OSError, ValueError):
        pass


# The options with which this Python was started, so that the program gets the same ones.


def interpreter_options(arguments: Sequence[str] | None = None) -> list[str]:
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


def running_program() -> tuple[Literal["script", "module", "command"], list[str]]:
    """What this process runs, as ``graphdoc run`` would be asked for it; a command without words for ``-c`` and stdin.

    The interpreter's own options are left out: ``interpreter_options`` gives them to whatever is started again.
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
