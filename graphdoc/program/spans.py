"""From a frame of the evidence to a labelled place in a finding, and to the source text that stands there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from graphdoc.evidence import Event, Frame, Node, SourceTexts
from graphdoc.model import Role, Span


def innermost_user(stack: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's own code, or None. ``stack`` is outermost first, as everywhere."""
    return next((frame for frame in reversed(stack) if frame.user), None)


def innermost(stack: Sequence[Frame]) -> Frame | None:
    """The innermost user frame, or the innermost frame at all where the user's code is not on the stack."""
    return innermost_user(stack) or (stack[-1] if stack else None)


def in_function(frames: Iterable[Frame], of: Frame) -> Frame | None:
    """The first of these frames that lies in the function of another one, or None."""
    return next((f for f in frames if (f.file, f.function) == (of.file, of.function)), None)


Moment = tuple[int, int]
"""A place in time: a sequence number of the graph, then the index of a call; a node follows the calls of its number."""

_AFTER_CALLS = 1 << 60


def moment(of: Node | Event | None) -> Moment | None:
    """When a node was made or a call was made, for ``Span.when``; None where it has no number (AccumulateGrad)."""
    if of is None or of.sequence < 0:
        return None
    return (of.sequence, of.index if isinstance(of, Event) else _AFTER_CALLS)


def span(
    role: Role, frame: Frame, label: str = "", sources: SourceTexts | None = None, when: Moment | None = None
) -> Span:
    """The frame's place as a span; the file stays as the frame names it.

    A frame without columns gives the whole line where ``sources`` holds its file, and otherwise an empty span at
    column 1 (``column == end_column``), which stands for the whole line.
    """
    if frame.column > 0:
        end_line = frame.end_line or frame.line
        end_column = frame.end_column or frame.column
        return Span(role, frame.file, frame.line, frame.column, end_line, end_column, label, when)
    raw = _raw_line(sources, frame) if sources else ""
    text = raw.strip()
    column = len(raw) - len(raw.lstrip()) + 1 if text else 1
    return Span(role, frame.file, frame.line, column, frame.line, column + len(text), label, when)


def span_of(
    role: Role,
    stack: Sequence[Frame],
    label: str = "",
    sources: SourceTexts | None = None,
    when: Moment | None = None,
) -> tuple[Span, ...]:
    """The place of a stack (its innermost user frame) as a tuple of one span, or of none for an empty stack."""
    frame = innermost(stack)
    return (span(role, frame, label, sources, when),) if frame else ()


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


def place(frame: Frame) -> dict[str, object]:
    """The frame's place as the arguments of a remedy carry it: file, line, column, end_line, end_column."""
    return {
        "file": frame.file,
        "line": frame.line,
        "column": frame.column,
        "end_line": frame.end_line,
        "end_column": frame.end_column,
    }


def where(frame: Frame | None) -> str:
    """``train.py:12``: the short form for a sentence; empty for None."""
    if frame is None:
        return ""
    name = frame.file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{frame.line}"


def line_text(sources: SourceTexts, frame: Frame | None) -> str:
    """The source line of the frame without indentation, or an empty string where the source is not kept."""
    return _raw_line(sources, frame).strip() if frame else ""


def code_at(sources: SourceTexts, frame: Frame | None) -> str:
    """The exact expression that the frame was executing; the whole line where no columns are known."""
    if frame is None:
        return ""
    if frame.column <= 0 or frame.end_column <= 0:
        return line_text(sources, frame)
    lines = sources.get(frame.file, "").splitlines()
    last = frame.end_line or frame.line
    if not 1 <= frame.line <= last <= len(lines):
        return ""
    part = lines[frame.line - 1 : last]
    part[-1] = part[-1][: frame.end_column - 1]
    part[0] = part[0][frame.column - 1 :]
    return "\n".join(part)


LONGEST = 60
"""Characters of code that a sentence can hold."""


def short_code(sources: SourceTexts, frame: Frame | None) -> str:
    """The same on one line, for a sentence; empty where it is longer than one can hold."""
    code = " ".join(code_at(sources, frame).split())
    return code if len(code) <= LONGEST else ""


def _raw_line(sources: SourceTexts | None, frame: Frame) -> str:
    lines = sources.get(frame.file, "").splitlines() if sources else []
    return lines[frame.line - 1] if 1 <= frame.line <= len(lines) else ""
