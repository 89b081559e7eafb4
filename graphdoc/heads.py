"""The head of an evidence file: which process, which exception. Enough to tell which of ten thousand to read whole."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from graphdoc.evidence import Evidence, EvidenceError, Process, Raised, load

MOST_KEPT = 100_000
"""Heads that are remembered: one command asks for those of a run several times."""
FIELDS = ("version", "process", "raised", "seconds")


@dataclass
class Head:
    """Of one evidence file. ``signed``: something was seen in a run that went on. ``told_by`` names the process whose
    file tells the same failure whole, where this one does not; it is empty where this one does."""

    file: Path
    process: Process = field(default_factory=Process)
    raised: Raised | None = None
    seconds: float = 0.0
    signed: bool = False
    told_by: str = ""

    @property
    def uncaught(self) -> bool:
        """Whether an exception has ended this process."""
        return self.raised is not None and self.raised.uncaught


def read_head(file: Path) -> Head:
    """The head of a file; it is read once as long as it stays the same.

    Raises:
        EvidenceError: it cannot be read.
    """
    try:
        found = os.stat(file)
    except OSError as e:
        raise EvidenceError(f"cannot read {file}: {e.strerror}") from e
    return _read(file, (found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(MOST_KEPT)
def _read(file: Path, _: tuple[int, ...]) -> Head:
    data = load(str(file))
    try:
        short = Evidence.from_json({name: data[name] for name in FIELDS if name in data})
    except EvidenceError as e:
        raise EvidenceError(f"{file}: {e}") from e
    extras: Any = data.get("extras")
    told_by = extras.get("told_by") if isinstance(extras, dict) else None
    return Head(
        file,
        short.process,
        short.raised,
        short.seconds,
        bool(data.get("signs")),
        told_by if isinstance(told_by, str) else "",
    )
