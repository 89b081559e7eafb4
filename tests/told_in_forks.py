"""The report of a program that is run, and run once more, in forks of this process, which has torch loaded already.

All but the start of a process and what keeps a second run from the user's files is what ``graphdoc run`` does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from forked import Result, run_forked

from graphdoc.cli.running import with_patches
from graphdoc.diagnose import report_for
from graphdoc.evidence import Evidence
from graphdoc.launch import Ended, Request
from graphdoc.launch.isolation import Stop
from graphdoc.launch.keep import Kept, keep, last_run
from graphdoc.model import Report
from graphdoc.probe import deepened
from graphdoc.processes import read_processes

STDERR = "stderr"
"""The file of a run's folder with what the program itself wrote there."""


@dataclass(frozen=True)
class Told:
    """A kept run, its report, and the lines that are said before it."""

    kept: Kept
    report: Report
    said: list[str]

    @property
    def stderr(self) -> str:
        """What the program itself wrote."""
        return (self.kept.folder / STDERR).read_text()

    @property
    def evidence(self) -> Evidence:
        """What the process that failed first has left; of a second run, where there was one."""
        first = read_processes(self.kept).first
        assert first is not None
        return deepened(self.kept, first.process) or first


def run(folder: Path, number: int = 1, *, mode: str = "observe", rerun: bool = True) -> Told:
    """Run ``train.py`` in ``folder``, and keep the run there."""
    out = folder / ".graphdoc" / f"20000101T000000.000000-{number}"
    out.mkdir(parents=True)
    request = Request(["train.py"], cwd=str(folder), mode=mode)
    kept = keep(out, request, _launch(request, out), rerun=rerun)
    kept.save()
    return _told(kept)


def tell(folder: Path) -> Told:
    """What is told today of the run that was kept there. Nothing is run."""
    return _told(replace(last_run(folder), rerun=False))


def _told(kept: Kept) -> Told:
    said: list[str] = []
    with chdir(kept.cwd), in_forks():
        report = with_patches(kept, report_for(kept, announce=lambda line, *_: said.append(line)))
    return Told(kept, report, said)


def launch(request: Request, out: Path | None) -> Ended:
    """What starts the program of ``graphdoc run``; what it writes goes where that of this process goes."""
    assert out is not None
    result, ended = _in_a_fork(request, out, None)
    for stream, text in ((sys.stdout, result.stdout), (sys.stderr, result.stderr)):
        stream.write(text)
        stream.flush()
    return ended


def _launch(request: Request, out: Path, _: Stop | None = None, *, enough: Callable[[], bool] | None = None) -> Ended:
    """How the program ends in a fork, which is killed once it has shown enough."""
    result, ended = _in_a_fork(request, out, enough)
    (out / STDERR).write_text(result.stderr)
    return ended


def _in_a_fork(request: Request, out: Path, enough: Callable[[], bool] | None) -> tuple[Result, Ended]:
    def install() -> None:
        from graphdoc.capture import install

        (out / f"process-{os.getpid()}.started").touch()
        install(str(out), request.mode)

    script, *words = request.command
    result, ended = Result(0, "", ""), Ended(0)
    started = time.monotonic()
    try:
        limit = request.timeout + request.patience if request.timeout else 300.0
        result = run_forked(script, words, request.cwd, install, timeout=limit, enough=enough)
        status = result.status
        ended.exit_status, ended.signal = (128 - status, -status) if status < 0 else (status, None)
        ended.stopped = enough is not None and status == -signal.SIGKILL
    except TimeoutError:
        ended.timed_out = True
    ended.seconds = time.monotonic() - started
    ended.evidence = sorted(out.glob("evidence-*.json"))
    return result, ended


@contextmanager
def in_forks() -> Iterator[None]:
    """All programs that graphdoc starts, but those of its trials, are run in forks."""
    with patch("graphdoc.cli.running.launch", launch), patch("graphdoc.probe.launch_apart", _launch):
        yield
