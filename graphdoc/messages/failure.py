"""One failure read from a log: the exception, where it passed, what anomaly mode said, and who else printed it."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphdoc.evidence import Frame
from graphdoc.messages.recognise import Match


@dataclass
class Failure:
    """One exception (or bare message) in a log, neutralised for display; the same on several ranks is one Failure.

    ``ranks`` are the numbers of the processes that printed it (empty where the log names none), ``labels`` their
    names as printed. ``frames`` are the traceback, outermost first; ``forward`` the frames of anomaly mode's forward
    trace and ``forward_op`` the node that it names. ``code`` maps (file, line) to the source line that the log
    shows. ``chain`` holds the exceptions behind this one, ``line`` counts lines of the log from 1. ``truncated``
    tells that the log ended, or lost its thread, before the message.
    """

    type: str
    message: str
    match: Match | None = None
    frames: list[Frame] = field(default_factory=list)
    forward: list[Frame] = field(default_factory=list)
    forward_op: str = ""
    warnings: list[str] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    code: dict[tuple[str, int], str] = field(default_factory=dict)
    chain: list[str] = field(default_factory=list)
    line: int = 0
    count: int = 1
    truncated: bool = False

    @property
    def rank(self) -> int:
        """The first rank that printed it, or -1."""
        return self.ranks[0] if self.ranks else -1

    @property
    def place(self) -> Frame | None:
        """The innermost frame of the user's own code, or None."""
        return next((f for f in reversed(self.frames) if f.user), None)
