"""What a cause is: its code, its page, its recogniser and its examples, and the finding that it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphdoc.evidence import Evidence
from graphdoc.model import Confidence, Safety, Span


@dataclass(frozen=True)
class Page:
    """The text of ``graphdoc explain CODE``, in Markdown; every part is mandatory and says its thing once.

    ``example`` and ``use_instead`` are Python source without fences. ``references`` are (title, URL) pairs into
    PyTorch's own documentation.
    """

    what_happened: str
    why: str
    example: str
    use_instead: str
    fix_safety: str
    not_this: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Example:
    """A whole small program. A sick one really fails and is recognised as its cause; a healthy one is left alone.

    ``fails`` is a part of the message with which the sick one ends (empty where nothing crashes). ``line`` is the
    stripped text of the line that a reader should be sent to.
    """

    name: str
    code: str
    fails: str = ""
    line: str = ""


@dataclass(frozen=True)
class Remedy:
    """A request for one kind of fix. ``kind`` is the name of a module in ``graphdoc.fixes``; ``args`` its input.

    Causes name places and expressions; only the fix itself knows how to edit source.
    """

    kind: str
    title: str
    safety: Safety
    note: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What a recogniser returns: how strong the evidence is, the story, and the remedies, best first.

    ``strength`` orders findings of different causes: 1.0 means that the graph itself proves it; below 0.5 the message
    alone speaks. ``covers`` is the slug of a cause whose fault this finding tells of as well, with its remedies: a
    weaker finding of that cause would only repeat it. ``because`` is the one sentence of evidence that a short report
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


@dataclass(frozen=True)
class Cause:
    """One entry of the catalogue.

    ``families`` are the message families (see ``graphdoc.messages``) in which it can be the answer; the recogniser is
    asked only for those, or always where it is empty.
    """

    code: str
    slug: str
    title: str
    page: Page
    recognise: Callable[[Evidence], Finding | None]
    families: tuple[str, ...] = ()
    sick: tuple[Example, ...] = ()
    healthy: tuple[Example, ...] = ()
