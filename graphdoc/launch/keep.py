"""Where runs are kept: ``.graphdoc/`` in the working directory, the newest few, each with its request and outcome."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from graphdoc.errors import UsageError
from graphdoc.files import write_whole
from graphdoc.launch import Ended, Request

PLACE = ".graphdoc"
KEPT_RUNS = 10


@dataclass(frozen=True)
class Kept:
    """A run that has ended: what was asked for, how it ended and the evidence files that it left in ``folder``.

    ``exit_status`` is 128 + n after signal n; ``seconds`` is wall-clock time. ``troubles`` are lines about what was
    not observed. ``rerun`` is False when the user wants no automatic second run.
    """

    folder: Path
    request: Request
    exit_status: int = 0
    signal: int | None = None
    seconds: float = 0.0
    troubles: tuple[str, ...] = ()
    evidence: tuple[Path, ...] = field(default=())
    rerun: bool = True

    @property
    def cwd(self) -> Path:
        """The working directory of the run."""
        return Path(self.request.cwd or os.getcwd())

    def save(self) -> None:
        """Write ``run.json`` beside the evidence and, where the run is kept in its place, ``last.json`` above it.

        Raises:
            OSError: the folder cannot be written.
        """
        request = asdict(self.request)
        document = {
            "version": 1,
            "request": {k: request[k] for k in ("command", "kind", "cwd", "mode")},
            "outcome": {
                "exit_status": self.exit_status,
                "signal": self.signal,
                "seconds": round(self.seconds, 3),
                "troubles": list(self.troubles),
            },
            "rerun": self.rerun,
        }
        write_whole(self.folder / "run.json", _as_bytes(document))
        if self.folder.parent.name == PLACE:
            write_whole(self.folder.parent / "last.json", _as_bytes({"runs": self.folder.name, **document}))


def new_run(cwd: Path) -> Path:
    """Make the folder for a new run and clear away all but the newest runs.

    Raises:
        OSError: it cannot be made there (a read-only folder, a full disk). See ``temporary_run``.
    """
    place = cwd / PLACE
    place.mkdir(exist_ok=True)
    ignore = place / ".gitignore"
    if not ignore.exists():
        try:
            write_whole(ignore, b"*\n")
        except OSError:
            if not os.listdir(place):
                place.rmdir()
            raise
    older = sorted(f for f in place.iterdir() if f.is_dir() and f.name[:1].isdigit())
    for folder in older[: max(0, len(older) - KEPT_RUNS + 1)]:
        shutil.rmtree(folder, ignore_errors=True)
    folder = place / f"{datetime.now():%Y%m%dT%H%M%S.%f}-{os.getpid()}"
    folder.mkdir()
    return folder


def temporary_run() -> Path:
    """Make a folder for a run outside the working directory.

    Raises:
        OSError: not even that is possible.
    """
    return Path(tempfile.mkdtemp(prefix="graphdoc-"))


def keep(folder: Path, request: Request, ended: Ended, *, rerun: bool = True) -> Kept:
    """What is kept of a run that has just ended. Nothing is written yet."""
    return Kept(
        folder=folder,
        request=request,
        exit_status=ended.exit_status,
        signal=ended.signal,
        seconds=ended.seconds,
        troubles=tuple(ended.troubles),
        evidence=tuple(ended.evidence),
        rerun=rerun,
    )


def last_run(cwd: Path) -> Kept:
    """The last run that was started in this folder.

    Raises:
        UsageError: there is none, or what is left of it cannot be read.
    """
    pointer = cwd / PLACE / "last.json"
    if not pointer.exists():
        raise UsageError("no run is kept in this folder yet: start the program with `graphdoc run` first")
    name = _read(pointer).get("runs")
    folder = cwd / PLACE / str(name)
    if not isinstance(name, str) or not folder.is_dir():
        raise UsageError(f"{pointer} names a run that is no longer there: start the program with `graphdoc run` again")
    return open_run(folder, cwd)


def open_run(place: Path, cwd: Path) -> Kept:
    """The run kept in a folder, or the run that one evidence file is about.

    Raises:
        UsageError: there is nothing of the kind at ``place``, or it cannot be read.
    """
    if place.is_dir():
        document = _read(place / "run.json")
        return _from_document(place, document)
    if not place.exists():
        raise UsageError(f"{place}: No such file or directory")
    from graphdoc.evidence import Evidence, EvidenceError

    try:
        evidence = Evidence.read(str(place))
    except EvidenceError as e:
        raise UsageError(str(e)) from e
    if (place.parent / "run.json").exists():
        kept = _from_document(place.parent, _read(place.parent / "run.json"))
        return Kept(**{**vars(kept), "evidence": (place,)})
    request = Request(evidence.command or evidence.process.argv, cwd=evidence.process.cwd or str(cwd))
    status = evidence.exit_status if evidence.exit_status is not None else int(evidence.raised is not None)
    return Kept(place.parent, request, status, None, evidence.seconds, (), (place,))


def _from_document(folder: Path, document: dict[str, Any]) -> Kept:
    try:
        request, outcome = document["request"], document["outcome"]
        if request["kind"] not in ("script", "module", "command"):
            raise ValueError(f"unknown kind {request['kind']!r}")
        return Kept(
            folder=folder,
            request=Request(
                [str(word) for word in request["command"]],
                request["kind"],
                cwd=str(request["cwd"]),
                mode=str(request["mode"]),
            ),
            exit_status=int(outcome["exit_status"]),
            signal=outcome["signal"] if isinstance(outcome["signal"], int) else None,
            seconds=float(outcome["seconds"]),
            troubles=tuple(str(line) for line in outcome["troubles"]),
            evidence=tuple(sorted(folder.glob("evidence-*.json"))),
            rerun=bool(document["rerun"]),
        )
    except (KeyError, TypeError, ValueError) as e:
        raise UsageError(f"{folder / 'run.json'} is damaged: {type(e).__name__}: {e}") from e


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from e
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path} is truncated or damaged: {e}") from e
    if not isinstance(data, dict):
        raise UsageError(f"{path} is damaged: not a JSON object")
    return data


def _as_bytes(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()
