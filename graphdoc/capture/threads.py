"""Events of several threads on one scale of time: PyTorch numbers the graph nodes of each thread from 0."""

from __future__ import annotations

import _thread
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.capture.journal import Entry

_numbers = itertools.count()


class ThreadNumber(_thread._local):
    """``number`` is the calling thread's. The system gives the identity of a thread that has ended to the next one,
    whose nodes begin at 0 again.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)


def on_one_scale(entries: list[Entry], thread: int) -> None:
    """Let the sequence numbers of these events mean the counter of one thread: of ``thread``, or where that has made
    none of them, of the one that made the latest call.

    The counter is a thread_local (aten/src/ATen/SequenceNumber.cpp). What another thread did gets the number at which
    this one was seen last: nothing then counts as made before it of which that is not known. A call whose root has a
    higher number than the counter of its own thread differentiates what another thread has made, and comes after that;
    where the latest call is of this kind, the roots of such calls are the scale.
    """
    if len({e.thread for e in entries}) < 2:
        return
    calls = [e for e in entries if e.kind in ("backward", "grad")]
    if thread not in {e.thread for e in entries}:
        thread = (calls or entries)[-1].thread
    latest = next((e for e in reversed(calls) if e.thread == thread), None)
    by_roots = latest is not None and _of_another(latest)
    now = 0
    for e in entries:
        if by_roots and _of_another(e):
            now = max(now, e.root + 1)
        elif e.thread == thread and not by_roots:
            now = max(now, e.sequence)
        else:
            e.root = -1
        e.sequence = now


def _of_another(entry: Entry) -> bool:
    """Whether the root of this call was made in another thread: its own has not come to that number yet."""
    return entry.root >= entry.sequence
