"""Whether a run was observed: what its processes have told of themselves by the empty files that they left.

Each process that the start-up hook reached makes ``process-<name>.<state>`` in the run's folder as it comes so far:
``started`` (the hook ran), ``loading`` (torch, or a part of it, was being imported), ``observed`` (the capture is in
place), ``unobserved`` (torch is there and the capture could not be put in place), ``disabled`` (by GRAPHDOC_DISABLE),
``ended`` (the capture saw the end, or nothing of the program's runs there), ``alone`` (it ended without torch, and what
it had started has not computed for long enough to import torch), ``lost`` (what it had seen could not be written),
``late`` (an error of autograd's was printed when nothing could be examined any more). Nothing is read out of what the
program printed: its streams do not pass through us.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoc.launch import DISABLED, NOT_STARTED
from graphdoc.model import Observed

if TYPE_CHECKING:
    from graphdoc.launch.keep import Kept


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
    written = {file.stem.rpartition("evidence-")[2] for file in kept.evidence}
    told = "; ".join(kept.troubles[:3])
    for pid, found in states.items():
        if "lost" in found and pid not in written:
            return "what was seen could not be written" + (f" ({told})" if told else "; is the disk full?")
        if "unobserved" in found:
            return f"torch was there, and the process could not be observed{f': {told}' if told else ''}"
    if kept.evidence:
        return ""  # what failed first was written before its exception went on its way
    for found in states.values():
        if "disabled" in found and "started" not in found:
            return "GRAPHDOC_DISABLE was set for a process"
        if "loading" in found and not found & {"observed", "unobserved", "ended"}:
            return "the import of torch began and was not seen to end"
    if any("late" in found for found in states.values()):
        return "an error of autograd's was printed as Python shut down, too late to be examined"
    if told:
        return told
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
