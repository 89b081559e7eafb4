"""A kept run: its request, outcome and evidence, written beside each other and found again; was it observed?"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from graphdoc.documents import Unreadable, read_object
from graphdoc.errors import UsageError
from graphdoc.files import make_spare, write_private
from graphdoc.launch import DISABLED, NOT_STARTED, Ended, Request, troubles
from graphdoc.launch.folders import PLACE, RUN_NAME, holds, owned, seal
from graphdoc.model import Observed

MOST_BYTES = 4_000_000
"""Of a record or a pointer; what is longer was not written here."""


@dataclass(frozen=True)
class Kept:
    """A run that has ended: what was asked for, how it ended and the evidence files that it left in ``folder``.

    ``exit_status`` is 128 + n after signal n; ``seconds`` is wall-clock time. ``troubles`` are lines about what was
    not observed. ``rerun`` is False when the user wants no automatic second run. ``trusted`` is True for what this user
    ran here; otherwise the files are a stranger's data: their command is not run unless the user has ``allowed`` it,
    and the folder in which the user stands takes the place of theirs. ``ended`` is False where nobody has told of its
    end: processes of it may still run, and leave more.
    """

    folder: Path
    request: Request
    exit_status: int = 0
    signal: int | None = None
    seconds: float = 0.0
    troubles: tuple[str, ...] = ()
    evidence: tuple[Path, ...] = field(default=())
    rerun: bool = True
    trusted: bool = True
    allowed: bool = False
    ended: bool = True

    @property
    def may_run(self) -> bool:
        """Whether its command may be run again: it is this user's own, or he has allowed it (``--verify``)."""
        return self.trusted or self.allowed

    @property
    def cwd(self) -> Path:
        """The working directory of the run."""
        return Path(self.request.cwd or os.getcwd())

    def save(self) -> None:
        """Write ``run.json`` beside the evidence and, where the run is kept in its place, ``last.json`` above it.

        Raises:
            OSError: the folder cannot be written.
        """
        outcome = {
            "exit_status": self.exit_status,
            "signal": self.signal,
            "seconds": round(self.seconds, 3),
            "troubles": list(self.troubles),
        }
        write_private(self.folder / "run.json", _record(self.folder, self.request, self.rerun, outcome))
        if self.folder.parent.name == PLACE:
            pointer = {"version": 1, "runs": self.folder.name, "outcome": outcome}
            write_private(self.folder.parent / "last.json", _as_bytes(pointer))

    def save_in_memory(self) -> Kept:
        """The same, kept in the place that stands in for its folder (see ``graphdoc.files``).

        Raises:
            OSError: that cannot be written either.
        """
        elsewhere = replace(self, folder=Path(make_spare(str(self.folder))))
        elsewhere.save()
        return elsewhere


def expect(folder: Path, request: Request, *, rerun: bool) -> None:
    """Record in ``folder``, once, a run whose end nobody will tell: what its processes leave says how it ended.

    Raises:
        OSError: the folder cannot be written.
    """
    if not os.path.lexists(folder / "run.json"):
        write_private(folder / "run.json", _record(folder, request, rerun, None))


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
    if pointer.parent.is_symlink():
        raise UsageError(f"{pointer.parent} is a symbolic link, and what it leads to is not read")
    if not pointer.exists():
        raise UsageError("no run is kept in this folder yet: start the program with `graphdoc run` first")
    name = _read(pointer).get("runs")
    folder = cwd / PLACE / name if isinstance(name, str) and RUN_NAME.fullmatch(name) else None
    if folder is None or folder.is_symlink() or not folder.is_dir():
        raise UsageError(f"{pointer} names a run that is no longer there: start the program with `graphdoc run` again")
    return open_run(folder, cwd)


def open_run(place: Path, cwd: Path) -> Kept:
    """The run kept in a folder, or by its short name in ``cwd``, or the run that one evidence file is about.

    Raises:
        UsageError: there is nothing of the kind at ``place``, or it cannot be read.
    """
    if place.is_dir():
        return _from_document(place, _read(place / "run.json"), cwd)
    if not place.exists():
        from graphdoc.launch.folders import kept_runs

        named = kept_runs(cwd).get(str(place))
        if named is None:
            raise UsageError(f"{place}: no such file, folder or kept run (`graphdoc runs` lists those)")
        return _from_document(named, _read(named / "run.json"), cwd)
    from graphdoc.evidence import Evidence, EvidenceError

    try:
        evidence = Evidence.read(str(place))
    except EvidenceError as e:
        raise UsageError(str(e)) from e
    if (place.parent / "run.json").exists():
        return replace(_from_document(place.parent, _read(place.parent / "run.json"), cwd), evidence=(place,))
    request = Request(evidence.command or evidence.process.argv, cwd=str(cwd))
    status = evidence.exit_status if evidence.exit_status is not None else int(evidence.raised is not None)
    return Kept(place.parent, request, status, None, evidence.seconds, (), (place,), trusted=False)


def _from_document(folder: Path, document: dict[str, Any], here: Path) -> Kept:
    """The kept run that ``document`` tells of, read by someone who stands in ``here``."""
    try:
        request, outcome = document["request"], document["outcome"]
        ended = outcome is not None
        outcome = _seen(folder) if outcome is None else outcome
        sealed = {"request": request, "rerun": document["rerun"]}
        trusted = owned(folder / "run.json") and holds(document.get("seal"), sealed, folder)
        if request["kind"] not in ("script", "module", "command"):
            raise ValueError(f"unknown kind {request['kind']!r}")
        return Kept(
            folder=folder,
            request=Request(
                [str(word) for word in request["command"]],
                request["kind"],
                cwd=str(request["cwd"]) if trusted else str(here),
                mode=str(request["mode"]),
            ),
            exit_status=int(outcome["exit_status"]),
            signal=outcome["signal"] if isinstance(outcome["signal"], int) else None,
            seconds=float(outcome["seconds"]),
            troubles=tuple(str(line) for line in outcome["troubles"]),
            evidence=tuple(sorted(folder.glob("evidence-*.json"))),
            rerun=bool(document["rerun"]),
            trusted=trusted,
            ended=ended,
        )
    except (KeyError, TypeError, ValueError) as e:
        raise UsageError(f"{folder / 'run.json'} is damaged: {type(e).__name__}: {e}") from e


def _record(folder: Path, request: Request, rerun: bool, outcome: dict[str, Any] | None) -> bytes:
    told = asdict(request)
    sealed = {"request": {k: told[k] for k in ("command", "kind", "cwd", "mode")}, "rerun": rerun}
    return _as_bytes({"version": 1, **sealed, "outcome": outcome, "seal": seal(sealed, folder)})


def _seen(folder: Path) -> dict[str, Any]:
    """How a run has ended, as far as the evidence of its processes says."""
    from graphdoc.evidence import EvidenceError
    from graphdoc.heads import read_head

    status, seconds = 0, 0.0
    for file in folder.glob("evidence-*.json"):
        try:
            head = read_head(file)
        except EvidenceError:
            continue
        status = max(status, int(head.uncaught))
        seconds = max(seconds, head.seconds)
    return {"exit_status": status, "signal": None, "seconds": seconds, "troubles": troubles(folder)}


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_object(path, MOST_BYTES)
    except Unreadable as e:
        raise UsageError(str(e)) from e


def _as_bytes(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


# Whether a run was observed: what its processes have told of themselves by the empty files that they left. Each
# process that the start-up hook reached makes ``process-<name>.<state>`` in the run's folder as it comes so far:
# ``started`` (the hook ran), ``loading`` (torch, or a part of it, was being imported), ``observed`` (the capture is
# in place), ``unobserved`` (torch is there and the capture could not be put in place), ``disabled`` (by
# GRAPHDOC_DISABLE), ``ended`` (the capture saw the end, or nothing of the program's runs there), ``alone`` (it ended
# without torch, and what it had started has not computed for long enough to import torch), ``lost`` (what it had seen
# could not be written), ``late`` (an error of autograd's was printed when nothing could be examined any more).
# Nothing is read out of what the program printed: its streams do not pass through us.


def observed(kept: Kept) -> Observed:
    """What was seen of a kept run; of a single Evidence file from elsewhere, all that there is."""
    states = _states(kept.folder)
    if not states and kept.evidence:
        return Observed()
    alone = kept.request.kind != "command"
    kinds = {state for found in states.values() for state in found}
    torch = bool(kinds & {"observed", "unobserved", "lost"}) or bool(kept.evidence)
    if not states:
        return Observed(False, False, _never_started(kept, alone))
    return Observed(not (why := _missing(kept, states)), torch, why)


def alone(kept: Kept) -> bool:
    """Whether torch can have been in no other process than those that were observed.

    False where a process was replaced by another program, left by ``os._exit``, or started others that computed long.
    """
    states = _states(kept.folder)
    return kept.request.kind != "command" and all(found & {"alone", "ended"} for found in states.values())


def _states(folder: Path) -> dict[str, set[str]]:
    """The states of each process, by its number."""
    found: dict[str, set[str]] = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    for name in names:
        process, _, state = name.rpartition(".")
        if process.startswith("process-") and state:
            found.setdefault(process.removeprefix("process-"), set()).add(state)
    return found


def _never_started(kept: Kept, alone: bool) -> str:
    known = [line for line in kept.troubles if line in (NOT_STARTED, DISABLED)]
    if known:
        return known[0]
    if not kept.folder.is_dir():
        return "there was no place to keep what was seen"
    if alone:
        return "graphdoc's start-up hook did not run in the program's process, or could write nothing"
    return "no Python process was seen: the command started none, or without its environment, or with -I, -E or -S"


def _missing(kept: Kept, states: dict[str, set[str]]) -> str:
    """Why the run was not observed to its end, or an empty string."""
    told = "; ".join(kept.troubles[:3])
    lost = _lost(kept, states, told)
    if lost or kept.evidence:  # what failed first was written before its exception went on its way
        return lost
    return _not_ready(states) or told or _killed(kept, states)


def _lost(kept: Kept, states: dict[str, set[str]], told: str) -> str:
    written = {file.stem.rpartition("evidence-")[2] for file in kept.evidence}
    for pid, found in states.items():
        if "lost" in found and pid not in written:
            return "what was seen could not be written" + (f" ({told})" if told else "; is the disk full?")
        if "unobserved" in found:
            return f"torch was there, and the process could not be observed{f': {told}' if told else ''}"
    return ""


def _not_ready(states: dict[str, set[str]]) -> str:
    for found in states.values():
        if "disabled" in found and "started" not in found:
            return "GRAPHDOC_DISABLE was set for a process"
        if "loading" in found and not found & {"observed", "unobserved", "ended"}:
            return "the import of torch began and was not seen to end"
    late = any("late" in found for found in states.values())
    return "an error of autograd's was printed as Python shut down, too late to be examined" if late else ""


def _killed(kept: Kept, states: dict[str, set[str]]) -> str:
    killed = any("observed" in found and "ended" not in found for found in states.values())
    if killed and kept.signal is not None:
        return f"the program was ended by {_name(kept.signal)} before it came to its end"
    if killed and kept.exit_status:
        return "a process with torch was ended from outside or by os._exit, so what had gone wrong in it was not seen"
    return ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
