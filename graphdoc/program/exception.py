"""The exception of an evidence document: which known message it is, how far it can be trusted, where it was raised.

The text is read in one place, ``graphdoc.messages``; here are its answers. What PyTorch does not word itself (an
ordinary ``TypeError`` of Python about a None) is read here and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import replace

from graphdoc.evidence import Event, Frame, Raised, SourceTexts
from graphdoc.messages import Match, recognise
from graphdoc.messages.traceback_lines import frame_in
from graphdoc.model import Confidence, Span
from graphdoc.program.spans import innermost, span_of

LONGEST = 20_000
"""Characters of a message that are looked at: a pasted log may hold megabytes after its first line."""

SECOND_TIME = ("backward-second-time", "saved-tensor-access-after-free-ctx", "legacy-buffers-freed")
VERSION = ("inplace-version-mismatch", "inplace-version-mismatch-anomaly")
REFUSED_VIEW = ("view-multi-output-inplace", "view-base-modified-multi-output")
NO_GRAPH = ("no-grad-fn", "legacy-no-graph-nodes")
NON_LEAF_GRAD = ("nonleaf-grad", "legacy-nonleaf-grad-warning")
SEVERAL_VIEWS = ("view-multi-output-inplace", "modify-views-inplace-single")
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


def messages(raised: Raised | None) -> tuple[Match, ...]:
    """The known messages in the exception, then those of the exceptions behind it."""
    texts = (raised.message, *raised.causes) if raised is not None else ()
    return tuple(m for text in texts for m in recognise(text[:LONGEST]))


def called_by_autograd(raised: Raised | None) -> bool:
    """Whether it was torch.autograd that made the call which failed; True where no traceback tells."""
    stack = raised.stack if raised is not None else []
    return not stack or "torch/autograd/" in stack[-1].file.replace("\\", "/")


def message_of(raised: Raised | None, *ids: str) -> Match | None:
    """The first of the known messages that is one of these, with its named fields; or None."""
    return next((m for m in messages(raised) if {m.id, *m.also} & {*ids}), None)


def can_go_on(raised: Raised | None) -> bool:
    """Whether the program as it is written can be made to go on behind this failure, with the gradients that it is to
    have: what is freed is kept, and what is overwritten is copied before."""
    return message_of(raised, *SECOND_TIME, *VERSION, *REFUSED_VIEW) is not None


def field_of(raised: Raised | None, name: str, *ids: str) -> str:
    """A named field of the first of these messages that has it; empty where none does."""
    found = (m.fields.get(name, "") for m in messages(raised) if {m.id, *m.also} & {*ids})
    return next((text for text in found if text), "")


def first_line(message: str) -> str:
    """The first line of the exception's text, for a fact; of a long one the sentences that are short."""
    line = next(iter(message[:LONGEST].strip().splitlines()), "")
    short = line[:160]
    return short if len(line) <= 160 or ". " not in short else short[: short.rindex(". ") + 1]


def met_none(message: str) -> bool:
    """Whether Python itself complained of a None where a tensor was expected."""
    return _MET_NONE.search(message[:LONGEST]) is not None


def unpacked_wrongly(message: str) -> bool:
    """Whether more or fewer values were unpacked than there were."""
    return _UNPACKED.search(message[:LONGEST]) is not None


def warned(warnings: list[str], *ids: str) -> bool:
    """Whether the run gave one of these known warnings."""
    return any(_is(w, ids) for w in warnings)


def warned_at(from_text: bool, warnings: list[str], frame: Frame, *ids: str) -> bool:
    """Whether the run gave one of these for the line of ``frame``; a pasted warning need not name its line."""
    own = f"{frame.file}:{frame.line}:"
    return any(_is(w, ids) for w in warnings if from_text or own in w)


def _is(text: str, ids: tuple[str, ...]) -> bool:
    return any({m.id, *m.also} & {*ids} for m in recognise(text[:LONGEST]))


def weight(from_text: bool, strength: float, confidence: Confidence) -> tuple[float, Confidence]:
    """What a message proves: ``strength`` where this very run raised it, less where it was only pasted."""
    pasted: Confidence = "likely" if confidence == "certain" else "possible"
    return (min(strength, 0.45), pasted) if from_text else (strength, confidence)


TRACED = "from user code:"
"""What torch._dynamo writes above the frames of the function that it traced: they are on no traceback."""


def raised_at(raised: Raised | None, sources: SourceTexts | None = None) -> Frame | None:
    """The innermost frame of the user's code in the traceback; of a function that was being compiled, in its trace."""
    traced = _traced(raised.message, sources) if raised and sources and TRACED in raised.message else None
    return traced or (innermost(raised.stack) if raised else None)


def _traced(message: str, sources: SourceTexts) -> Frame | None:
    found = None
    for line in message[:LONGEST].partition(TRACED)[2].splitlines():
        frame = frame_in(line)
        if frame is not None and frame.user:
            path = frame.file.replace("\\", "/")
            file = next((f for f in sources if path == f or path.endswith("/" + f.replace("\\", "/"))), "")
            found = replace(frame, file=file) if file else found
    return found


def raised_span(raised: Raised | None, label: str) -> tuple[Span, ...]:
    """Where the exception was noticed, as a span with role ``failed``; empty where there is no traceback."""
    return span_of("failed", raised.stack, label) if raised else ()


def events_before_failure(events: list[Event], failing_call: Event | None) -> list[Event]:
    """The journal up to the call that failed, oldest first."""
    last = failing_call
    return [e for e in events if not e.failed and (last is None or e.index < last.index)]
