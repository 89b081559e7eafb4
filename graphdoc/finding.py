"""What a cause reports: the finding with its story, and the fixes that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphdoc.model import Confidence, Safety, Span


@dataclass(frozen=True)
class Remedy:
    """A request for one kind of fix. ``kind`` is the name of one in ``graphdoc.fixes``; ``args`` its input.

    Causes name places and expressions; only the fix itself knows how to edit source. ``open`` is what no trial can
    decide, as the end of a sentence: a fix that leaves it open is not called verified.
    """

    kind: str
    title: str
    safety: Safety
    note: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    open: str = ""

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The edits that it asks for, each with its ``kind`` and ``args``: its own one, or those of ``several``."""
        return list(self.args["edits"]) if self.kind == "several" else [{"kind": self.kind, "args": dict(self.args)}]


@dataclass(frozen=True)
class Finding:
    """What a recogniser returns: how strong the evidence is, the story, and the remedies, best first.

    ``strength`` orders findings of different causes: 1.0 means that the graph itself proves it; below 0.5 the message
    alone speaks. ``covers`` is the group (``GD1``) whose fault this finding tells of as well, with its remedies: a
    weaker finding of that group would only repeat it. ``because`` is the one sentence of evidence that a short report
    gives.
    """

    strength: float
    confidence: Confidence
    title: str
    explanation: str
    spans: tuple[Span, ...]
    facts: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    covers: str = ""
    because: str = ""
