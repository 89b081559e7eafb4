"""Runs a program apart from the user's files, network and terminal, in the best way that the system has."""

from __future__ import annotations

import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from graphdoc.launch import (
    Ended,
    Request,
    as_environment,
    as_words,
    collect,
    hook_works,
    interpreter_options,
    is_disabled,
    observes,
)
from graphdoc.launch.isolation.forks import Fork, Forks
from graphdoc.launch.isolation.keeper import UNAVAILABLE, descendants
from graphdoc.launch.isolation.stopping import Stop
from graphdoc.launch.scratch import make_scratch, remove_scratch

# Switches by which the known experiment trackers and hubs keep quiet, each by its own documented variable.

_SWITCHES = {
    # docs.wandb.ai, "Can I turn off wandb when testing my code?"
    "WANDB_MODE": "disabled",
    # The one value that both clients know: "debug" is neptune's alone, "disabled" neptune-scale's (docs.neptune.ai).
    "NEPTUNE_MODE": "offline",
    # comet_ml.start() and, of the same name before it, COMET_MODE as transformers' callback reads it.
    "COMET_START_ONLINE": "0",
    "COMET_MODE": "DISABLED",
    # Its newer versions refuse a file store without it (their own error names the variable).
    "MLFLOW_ALLOW_FILE_STORE": "true",
    # clear.ml/docs, "Offline Mode"
    "CLEARML_OFFLINE_MODE": "1",
    # huggingface.co/docs/huggingface_hub, "Environment variables"; what is in the cache is still found.
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def quiet_trackers(environment: Mapping[str, str], scratch: str) -> dict[str, str]:
    """The environment with every tracker off; what mlflow records goes to ``scratch``."""
    # mlflow.org/docs: a file store is one of the places that this variable may name.
    return {**environment, **_SWITCHES, "MLFLOW_TRACKING_URI": "file://" + os.path.join(scratch, "mlruns")}


# Which ways of isolation there are for a program on this system, best first.

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
        return hook_works(interpreter_options())
    path = shutil.which(request.command[0])
    if path is None:
        return False
    if Path(path).name.startswith("python"):
        return hook_works(interpreter_options(request.command[1:]))
    try:
        with open(path, "rb") as stream:
            words = stream.readline(500).decode(errors="replace").split()
    except OSError:
        return False
    names = [number for number, word in enumerate(words) if Path(word.lstrip("#!")).name.startswith("python")]
    return bool(words) and words[0].startswith("#!") and bool(names) and hook_works(words[names[0] + 1 :])


# Runs a program apart from the user's files, network and terminal, for as long as it has something to tell.

_KEEPER = Path(__file__).parent / "keeper.py"
_TICK = 0.03
"""Seconds between two looks at what the program has left."""
_MOST_PRINTED = 8000
"""Bytes of its output that are kept, the last ones."""
_PATIENCE = 10.0
"""Seconds that ending everything below may take before the keeper itself is killed."""

_known: dict[str, bool] = {}
"""What has been found out about this system: whether namespaces can be had, and with process numbers of their own."""
_reaching_out: set[tuple[str, ...]] = set()
"""Programs that have done what a layer cannot keep from the user's files, by command line and folder."""


class CannotIsolate(Exception):
    """No way holds here; the text says why, as the end of a sentence."""


class CannotStart(CannotIsolate):
    """The program would not get as far as its graph here, however it is run; the text says why, likewise."""


_NO_WAY = "its writes cannot be kept from your files on this system"


def check_ways(request: Request) -> None:
    """Raise ``CannotIsolate`` where it is known without a run that none can be kept apart here, or ``CannotStart``."""
    if request.kind != "command" and find_spec("torch") is None:
        raise CannotStart("the Python that runs graphdoc here has no torch; the one that ran the program has")
    if not ways(request):
        raise CannotIsolate(_NO_WAY)


def launch_apart(
    request: Request,
    out: Path,
    stop: Stop,
    *,
    enough: Callable[[], bool] | None = None,
    asked: bool = False,
    forks: Forks | None = None,
    started: Callable[[], None] | None = None,
) -> Ended:
    """Run the program so that it leaves no mark, until it ends, ``enough`` says so or its time is up.

    Its processes write their evidence into ``out``, and no other file of it is seen outside. It has no input and no
    terminal; the last of what it prints is in the result. With ``asked`` it is run with the user's real files where no
    isolation holds, and where it does what cannot be kept from them. It comes out of ``forks`` where it can.
    ``started`` is called once it runs where another run beside it would share nothing with it: files, network or
    processes.

    Raises:
        CannotIsolate: nothing was run.
        Interrupted: ``stop`` was told to; everything below has ended.
        UsageError: the command does not exist.
    """
    program = (*as_words(request), request.cwd or "")
    possible = [] if asked and program in _reaching_out else ways(request)
    why = _NO_WAY
    there = set(os.listdir(out))
    for way in possible:
        for processes in (True, False) if way == "namespaces" else (False,):
            if not _known.get(f"{way}{processes}", True):
                continue
            beside = started if way == "namespaces" and processes else None
            ended, refused = _run(request, out, stop, enough, way, processes, forks, beside)
            if not refused and ended.refused and asked:
                _reaching_out.add(program)
                for name in set(os.listdir(out)) - there:
                    os.unlink(out / name)
                return _run(request, out, stop, enough, "open", False, None)[0]
            if not refused:
                return ended
            _known[f"{way}{processes}"] = False
            why = f"{why} ({refused})"
    if asked:
        return _run(request, out, stop, enough, "open", False, None)[0]
    raise CannotIsolate(why)


def _run(
    request: Request,
    out: Path,
    stop: Stop,
    enough: Callable[[], bool] | None,
    way: Way,
    processes: bool,
    forks: Forks | None,
    started: Callable[[], None] | None = None,
) -> tuple[Ended, str]:
    """One run in one way: how it ended, and why this way cannot be had, if so (nothing was run then)."""
    words = as_words(request)
    folder = make_scratch()
    scratch = str(folder)
    try:
        environment = quiet_trackers(as_environment(request, out if observes(out) else None), scratch)
        if way == "layer":
            environment["GRAPHDOC_LAYER"] = scratch
            environment["TMPDIR"] = os.path.join(scratch, "tmp")
            os.mkdir(environment["TMPDIR"])
        if request.patches is not None:
            (out / "patches.json").write_text(json.dumps(request.patches), encoding="utf-8")
        given = {
            "way": way,
            "processes": processes,
            "words": words,
            "cwd": request.cwd or os.getcwd(),
            "out": str(out.absolute()),
            "scratch": scratch,
            "parent": os.getpid(),
        }
        stop.check()
        began = time.monotonic()
        keeper: subprocess.Popen[bytes] | Fork | None = None
        if forks is not None and way == "namespaces" and observes(out):
            keeper = forks.start(request, environment, given, stop)
        if keeper is None:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), json.dumps(given)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            if started is not None:
                started()
            waits = Waits(keeper.pid, request.patience)
            end = None if request.timeout is None else began + request.timeout
            ended = _watch(keeper, out, end, waits, stop, enough)
            ended.waited = waits.seconds
        finally:
            _end(keeper)
        ended.seconds = time.monotonic() - began
        ended.open = way == "open"
        if ended.exit_status == UNAVAILABLE and (refused := _left(out / "refused")):
            return ended, refused
        collect(ended, out, request)
        ended.refused = _left(out / "uncovered").partition("\n")[0]
        return ended, ""
    finally:
        remove_scratch(folder)


def _watch(
    keeper: subprocess.Popen[bytes] | Fork,
    out: Path,
    end: float | None,
    waits: Waits,
    stop: Stop,
    enough: Callable[[], bool] | None,
) -> Ended:
    """Wait for the program's end, a signal to us, what was waited for, or its time: ``end``, and as long after as
    it had no processor. Drain what it prints."""
    assert keeper.stdout is not None
    stream = keeper.stdout.fileno()
    printed = b""
    open_ = True
    ended = Ended(0)
    while True:
        if open_ and select.select([stream], [], [], _TICK)[0]:
            part = os.read(stream, 65536)
            open_ = bool(part)
            printed = (printed + part)[-_MOST_PRINTED:]
        elif not open_:
            time.sleep(_TICK)
        status = keeper.poll()
        if status is not None:
            ended.exit_status = status if status >= 0 else 128 - status
            ended.signal = ended.exit_status - 128 if ended.exit_status > 128 else None
            while open_ and select.select([stream], [], [], 0)[0] and (part := os.read(stream, 65536)):
                printed = (printed + part)[-_MOST_PRINTED:]
            break
        stop.check()
        if _left(out / "uncovered"):
            ended.exit_status = 1
            break
        if enough is not None and enough():
            ended.stopped = True
            break
        if end is not None and time.monotonic() > end + waits.look():
            ended.timed_out = True
            ended.exit_status, ended.signal = 137, 9
            break
    ended.printed = printed.decode(errors="replace")
    return ended


def _left(file: Path) -> str:
    """What a process has written there; empty for no file, and while nothing has been written to it yet."""
    try:
        return file.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _end(keeper: subprocess.Popen[bytes] | Fork) -> None:
    """End the program and everything that came of it; returns when nothing of it runs any more."""
    if keeper.poll() is None:
        keeper.send_signal(signal.SIGTERM)
        try:
            keeper.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
    if keeper.stdout is not None:
        keeper.stdout.close()


# How long a run was ready and had no processor, because others held them: time that is not its own.


MOST = 3.0
"""How often its seconds a run may wait for a processor on top of them."""
_PAUSE = 1.0


def patience(seconds: float) -> float:
    """How long runs that have so many seconds may wait for a processor on top: not at all where the machine is free."""
    if not hasattr(os, "sched_getaffinity"):
        return 0.0
    return MOST * seconds if os.getloadavg()[0] > len(os.sched_getaffinity(0)) else 0.0


class Waits:
    """``seconds`` for which the thread that waited longest had no processor, of a process and all that came of it; at
    most ``most``. 0.0 where the kernel does not tell. Asked once a second, for it looks at all processes."""

    def __init__(self, pid: int, most: float) -> None:
        self._pid, self._most = pid, most
        self._looked = time.monotonic()
        self.seconds = 0.0

    def look(self) -> float:
        """The same, up to now."""
        now = time.monotonic()
        if self._most and now - self._looked >= _PAUSE:
            self._looked = now
            told = max(map(_of_process, (self._pid, *descendants(self._pid))))
            self.seconds = min(max(self.seconds, told), self._most)
        return self.seconds


def _of_process(pid: int) -> float:
    told: list[list[str]] = []
    for file in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as stream:
            told.append(stream.read().split())
    return max((int(words[1]) / 1e9 for words in told if len(words) > 1), default=0.0)
