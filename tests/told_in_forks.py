"""The report of a program that is run, and run once more, in forks of this process, which has torch loaded already.

All but the start of a process and what keeps a second run from the user's files is what ``graphdoc run`` does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from forked import run_forked

from graphdoc.cli.running import with_patches
from graphdoc.diagnose import report_for
from graphdoc.launch import Ended, Request
from graphdoc.launch.isolation import Stop
from graphdoc.launch.keep import Kept, keep, last_run
from graphdoc.model import Report


def run(folder: Path, number: int = 1, *, mode: str = "observe", rerun: bool = True) -> tuple[Report, list[str]]:
    """Run ``train.py`` in ``folder`` and keep the run there; its report, and the lines that are said before it."""
    out = folder / ".graphdoc" / f"20000101T000000.000000-{number}"
    out.mkdir(parents=True)
    request = Request(["train.py"], cwd=str(folder), mode=mode)
    kept = keep(out, request, _launch(request, out), rerun=rerun)
    kept.save()
    return _report(kept)


def tell(folder: Path) -> Report:
    """What is told today of the run that was kept there. Nothing is run."""
    return _report(replace(last_run(folder), rerun=False))[0]


def _report(kept: Kept) -> tuple[Report, list[str]]:
    said: list[str] = []
    with chdir(kept.cwd), patch("graphdoc.probe.launch_apart", _launch):
        return with_patches(kept, report_for(kept, announce=lambda line, *_: said.append(line))), said


def _launch(request: Request, out: Path, _: Stop | None = None, *, enough: Callable[[], bool] | None = None) -> Ended:
    """How the program ends in a fork, which is killed once it has shown enough."""

    def install() -> None:
        from graphdoc.capture import install

        (out / f"process-{os.getpid()}.started").touch()
        install(str(out), request.mode)

    ended = Ended(0)
    started = time.monotonic()
    try:
        script, *words = request.command
        limit = request.timeout or 300.0
        status = run_forked(script, words, request.cwd, install, timeout=limit, enough=enough).status
        ended.exit_status, ended.signal = (128 - status, -status) if status < 0 else (status, None)
        ended.stopped = enough is not None and status == -signal.SIGKILL
    except TimeoutError:
        ended.timed_out = True
    ended.seconds = time.monotonic() - started
    ended.evidence = sorted(out.glob("evidence-*.json"))
    return ended
