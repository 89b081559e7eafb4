"""Asking for a fix at the place of a frame; no place, no fix."""

from __future__ import annotations

from typing import Any

from graphdoc.evidence import Frame
from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program.spans import place


def remedy_at(
    frame: Frame | None, kind: str, title: str, safety: Safety, note: str = "", **args: Any
) -> tuple[Remedy, ...]:
    """One remedy whose ``place`` is the frame's, or none where there is no frame or no column is known."""
    if frame is None:
        return ()
    return (Remedy(kind, title, safety, note, {"place": place(frame), **args}),)
