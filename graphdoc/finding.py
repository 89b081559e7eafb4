"""What a cause reports: the finding with its story, and the fixes that it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from graphdoc.evidence import Frame
from graphdoc.model import COMPLETE, Confidence, Safety, Span
from graphdoc.program.spans import place


@dataclass(frozen=True)
class Remedy:
    """A request for one kind of fix. ``kind`` is the name of one in ``graphdoc.fixes``; ``args`` its input.

    Causes name places and expressions; only the fix itself knows how to edit source. ``open`` is what no trial can
    decide, as the end of a sentence: a fix that leaves it open is not called verified. ``placeholders`` are names in
    ``args`` that the program does not have, each with what its author is to write there; ``safety`` says so too.
    """

    kind: str
    title: str
    safety: Safety
    note: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    open: str = ""
    placeholders: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether its patch, where one can be made, can be applied as it stands."""
        return self.safety in COMPLETE

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The edits that it asks for, each with its ``kind`` and ``args``: its own one, or those of ``several``."""
        return list(self.args["edits"]) if self.kind == "several" else [{"kind": self.kind, "args": dict(self.args)}]


_One = TypeVar("_One")


def remedy_at(
    frame: Frame | None, kind: str, title: str, safety: Safety, note: str = "", **args: Any
) -> tuple[Remedy, ...]:
    """One remedy whose ``place`` is the frame's, or none where there is no frame."""
    if frame is None:
        return ()
    return (Remedy(kind, title, safety, note, {"place": place(frame), **args}),)


COPY = [["{it}", "{copy.deepcopy}({it})"]]
"""For the kind ``rewrite``: a copy of what an expression gives."""
LIST = [["{it}", "list({it})"]]
"""For the kind ``rewrite``: a list of what can be gone through only once."""


def edit_at(kind: str, frame: Frame, **args: Any) -> dict[str, Any]:
    """One edit of a fix that makes several: its kind and arguments, of which ``place`` is the frame's."""
    return {"kind": kind, "args": {"place": place(frame), **args}}


def each_once(values: Sequence[_One]) -> list[_One]:
    """The edits, or places, without those that came before."""
    return [v for i, v in enumerate(values) if v not in values[:i]]


def together(edits: Sequence[dict[str, Any]], title: str, safety: Safety, note: str) -> list[Remedy]:
    """One remedy for all edits; none where there are none."""
    distinct = each_once(edits)
    if not distinct:
        return []
    if len(distinct) == 1:
        return [Remedy(distinct[0]["kind"], title, safety, note, distinct[0]["args"])]
    return [Remedy("several", title, safety, note, {"edits": distinct})]


@dataclass(frozen=True)
class Finding:
    """What a recogniser returns: how strong the evidence is, the story, and the remedies, best first.

    ``strength`` orders findings of different causes: 1.0 means that the graph itself proves it; below 0.5 the message
    alone speaks. ``covers`` is the group (``GD1``) whose fault this finding tells of as well, with its remedies: a
    weaker finding of that group would only repeat it. ``because`` is the one sentence of evidence that a short report
    gives. No place is told twice: ``spans`` are kept as ``distinct`` leaves them.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "spans", distinct(self.spans))


def distinct(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans without those whose place and role came before, so that no place is told twice.

    Where a cause stands at the very place at which something was made, used or written, the cause's label alone is
    kept.
    """
    seen: dict[tuple[str, str, int, int, int, int], Span] = {}
    causes = set()
    for s in spans:
        at = s.extent
        if s.role == "cause":
            causes.add(at)
        elif s.role in ("created", "consumed", "related") and at in causes:
            continue
        elif s.role == "mutated" and at in causes:
            s = replace(s, label="")
        seen.setdefault((s.role, *at), s)
    return tuple(seen.values())
