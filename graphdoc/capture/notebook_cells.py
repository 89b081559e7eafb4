"""Code that lies in no file, under the names that people know it by: the cells of a notebook."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from graphdoc.capture.source_lines import lines_of
from graphdoc.evidence import Frame


class Session(Protocol):
    """What knows the cells of a session."""

    def name_of(self, code_name: str) -> str:
        """What the file of a code object is called if it is a cell's (``In[3]``); else an empty string."""

    def is_body(self, code_name: str) -> bool:
        """Whether a code object's file name is that of what a magic has compiled (``%%time``), not of a cell."""

    def body_of(self, text: str) -> tuple[int, str] | None:
        """Of a cell with this text, if it runs by a magic: the lines above the code, and the cell as it was typed with
        the magic as a comment. None for any other."""


sessions: list[Session] = []
"""The sessions that are observed; hardly ever more than one."""

_code_names: dict[str, str] = {}


def name_of(code_name: str) -> str:
    """What a code object's file is called if it is a cell (``In[3]``); else an empty string."""
    for session in sessions:
        name = session.name_of(code_name)
        if name:
            if not session.is_body(code_name):
                _code_names[name] = code_name
            return name
    return ""


def text_of(name: str) -> str | None:
    """The text of the cell with this name, which IPython keeps where tracebacks look for it; None for other names."""
    code_name = _code_names.get(name)
    if code_name is None:
        return None
    text = "".join(lines_of(code_name))
    body = _body_of(text)
    return body[1] if body is not None else text


def _body_of(text: str) -> tuple[int, str] | None:
    return next((body for session in sessions if (body := session.body_of(text)) is not None), None)


def in_its_cell(frame: Frame, code_name: str, outer: list[Frame]) -> Frame:
    """A frame of what a magic runs, at its place in the cell with the magic: the next frame of a cell's further out.

    Code of a magic is compiled under one name for all cells, so its own name does not tell the cell. In ``%%time`` it
    has lines of its own; what stands in a line (``%time f()``) is that line.
    """
    cell = next((f for f in reversed(outer) if f.user), None)
    if cell is None or not any(s.is_body(code_name) for s in sessions):
        return frame
    body = _body_of("".join(lines_of(_code_names.get(cell.file, ""))))
    if body is None:
        return replace(cell, function=frame.function, column=0, end_column=0)  # its text is no expression of the cell's
    return replace(frame, file=cell.file, line=frame.line + body[0], end_line=frame.end_line + body[0])
