"""Reading the exception of an evidence document: is it this message, how far can it be trusted, where was it raised."""

from __future__ import annotations

import re
from functools import cache

from graphdoc.evidence import Event, Evidence, Frame
from graphdoc.model import Confidence, Span
from graphdoc.program.spans import innermost, span_of

LONGEST = 20_000
"""Characters of a message that are looked at: a pasted log may hold megabytes after its first line."""

NO_GRAPH = (
    "does not require grad and does not have a grad_fn",
    "there are no graph nodes that require computing gradients",
)


@cache
def _phrase(text: str) -> re.Pattern[str]:
    """The words of ``text`` with any white space between them, so that wrapped and joined lines match alike."""
    return re.compile(r"\s+".join(re.escape(word) for word in text.split()))


def says(evidence: Evidence, *phrases: str) -> bool:
    """Whether the exception's message holds one of these phrases, whatever its line breaks."""
    text = evidence.message[:LONGEST]
    return any(_phrase(p).search(text) for p in phrases)


def warned(evidence: Evidence, *phrases: str) -> bool:
    """Whether the run gave a warning that holds one of these phrases."""
    return any(_phrase(p).search(w[:LONGEST]) for p in phrases for w in evidence.warnings)


def warned_at(evidence: Evidence, frame: Frame, phrase: str) -> bool:
    """Whether the run gave this warning for the line of ``frame``; a pasted warning need not name its line."""
    own = f"{frame.file}:{frame.line}:"
    return any(_phrase(phrase).search(w[:LONGEST]) for w in evidence.warnings if evidence.from_text or own in w)


def field_of(evidence: Evidence, pattern: str) -> re.Match[str] | None:
    """The first match of a regular expression in the message. Patterns are linear: no nested repetition."""
    return re.search(pattern, evidence.message[:LONGEST])


def weight(evidence: Evidence, strength: float, confidence: Confidence = "certain") -> tuple[float, Confidence]:
    """What a message proves: ``strength`` where this very run raised it, less where it was only pasted."""
    if not evidence.from_text:
        return strength, confidence
    return min(strength, 0.45), "likely" if confidence == "certain" else "possible"


def raised_at(evidence: Evidence) -> Frame | None:
    """The innermost frame of the user's code in the traceback."""
    return innermost(evidence.raised.stack) if evidence.raised else None


def raised_span(evidence: Evidence, label: str) -> tuple[Span, ...]:
    """Where the exception was noticed, as a span with role ``failed``; empty where there is no traceback."""
    return span_of("failed", evidence.raised.stack, label, evidence) if evidence.raised else ()


def failing_event(evidence: Evidence) -> Event | None:
    """The journal's entry of the backward or grad call that failed, or None."""
    known = evidence.event(evidence.failing_event) if evidence.failing_event >= 0 else None
    return known or next((e for e in reversed(evidence.events) if e.failed), None)


def events_before_failure(evidence: Evidence) -> list[Event]:
    """The journal up to the call that failed, oldest first."""
    last = failing_event(evidence)
    return [e for e in evidence.events if not e.failed and (last is None or e.index < last.index)]
