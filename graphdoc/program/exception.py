"""The exception of an evidence document: which known message it is, how far it can be trusted, where it was raised.

The text is read in one place, ``graphdoc.messages``; here are its answers. What PyTorch does not word itself (an
ordinary ``TypeError`` of Python about a None) is read here and nowhere else.
"""

from __future__ import annotations

import re

from graphdoc.evidence import Event, Evidence, Frame
from graphdoc.messages import Match, recognise
from graphdoc.model import Confidence, Span
from graphdoc.program.spans import innermost, span_of

LONGEST = 20_000
"""Characters of a message that are looked at: a pasted log may hold megabytes after its first line."""

SECOND_TIME = ("backward-second-time", "saved-tensor-access-after-free-ctx", "legacy-buffers-freed")
VERSION = ("inplace-version-mismatch", "inplace-version-mismatch-anomaly")
NO_GRAPH = ("no-grad-fn", "legacy-no-graph-nodes")
NON_LEAF_GRAD = ("nonleaf-grad", "legacy-nonleaf-grad-warning")
INFERENCE = (
    "inference-save-for-backward",
    "inference-inplace",
    "inference-requires-grad",
    "inference-version-counter",
    "inference-set-version",
)
"""Ids of messages (messages/patterns.json) that several places ask for."""

_MET_NONE = re.compile(
    r"'NoneType' object|unsupported operand type\(s\) for [^:]{1,20}:[^\n]{0,80}NoneType|must be Tensor, not NoneType"
)
_UNPACKED = re.compile(r"(?:not enough|too many) values to unpack")


def messages(evidence: Evidence) -> tuple[Match, ...]:
    """The known messages in the exception, then those of the exceptions behind it."""
    if evidence.raised is None:
        return ()
    texts = (evidence.raised.message, *evidence.raised.causes)
    return tuple(m for text in texts for m in recognise(text[:LONGEST]))


def message_of(evidence: Evidence, *ids: str) -> Match | None:
    """The first of the known messages that is one of these, with its named fields; or None."""
    return next((m for m in messages(evidence) if {m.id, *m.also} & {*ids}), None)


def field_of(evidence: Evidence, name: str, *ids: str) -> str:
    """A named field of the first of these messages that has it; empty where none does."""
    found = (m.fields.get(name, "") for m in messages(evidence) if {m.id, *m.also} & {*ids})
    return next((text for text in found if text), "")


def first_line(evidence: Evidence) -> str:
    """The first line of the exception's text, for a fact."""
    return next(iter(evidence.message[:LONGEST].strip().splitlines()), "")[:160]


def met_none(evidence: Evidence) -> bool:
    """Whether Python itself complained of a None where a tensor was expected."""
    return _MET_NONE.search(evidence.message[:LONGEST]) is not None


def unpacked_wrongly(evidence: Evidence) -> bool:
    """Whether more or fewer values were unpacked than there were."""
    return _UNPACKED.search(evidence.message[:LONGEST]) is not None


def warned(evidence: Evidence, *ids: str) -> bool:
    """Whether the run gave one of these known warnings."""
    return any(_is(w, ids) for w in evidence.warnings)


def warned_at(evidence: Evidence, frame: Frame, *ids: str) -> bool:
    """Whether the run gave one of these for the line of ``frame``; a pasted warning need not name its line."""
    own = f"{frame.file}:{frame.line}:"
    return any(_is(w, ids) for w in evidence.warnings if evidence.from_text or own in w)


def _is(text: str, ids: tuple[str, ...]) -> bool:
    return any({m.id, *m.also} & {*ids} for m in recognise(text[:LONGEST]))


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
