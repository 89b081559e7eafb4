"""Test programs with marked places: every ``«code»`` is one, numbered from 0 in order of the source."""

from __future__ import annotations

from typing import Any

from graphdoc.fixes.kinds import build
from graphdoc.source.module import Source

FILE = "train.py"


def unmark(marked: str) -> tuple[str, list[dict[str, Any]]]:
    """The program without its marks, and the marked places in order of their opening mark (marks may nest)."""
    text = ""
    open_marks: list[int] = []
    spans: list[list[int]] = []
    for character in marked:
        if character == "«":
            open_marks.append(len(spans))
            spans.append([len(text), -1])
        elif character == "»":
            spans[open_marks.pop()][1] = len(text)
        else:
            text += character
    bom = 1 if text.startswith("\ufeff") else 0
    return text, [_place(text[bom:], start - bom, end - bom) for start, end in spans]


def _place(text: str, start: int, end: int) -> dict[str, Any]:
    def position(offset: int) -> tuple[int, int]:
        head = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        return head.count("\n") + 1, len(head) - (head.rfind("\n") + 1) + 1

    (line, column), (end_line, end_column) = position(start), position(end)
    return {"file": FILE, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def fixed(kind: str, marked: str, place_name: str | None = "place", **args: Any) -> str:
    """The program after one fix; the first mark is ``args[place_name]``, ``@1`` in args stands for the second mark."""
    text, places = unmark(marked)
    if place_name is not None:
        args[place_name] = places[0]

    def resolve(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("@") and value[1:].isdigit():
            return places[int(value[1:])]
        if isinstance(value, list):
            return [resolve(v) for v in value]
        if isinstance(value, dict):
            return {k: resolve(v) for k, v in value.items()}
        return value

    return build(kind, {FILE: Source(FILE, text)}, resolve(args))[FILE]
