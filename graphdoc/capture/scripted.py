"""The places that an error out of TorchScript tells in its own text: no frame of Python stands for what it runs."""

from __future__ import annotations

import ast
import os
import re

from graphdoc.capture.code_places import is_user_file, shown_file
from graphdoc.capture.source_lines import line_of, lines_of
from graphdoc.evidence import Frame

_HEAD = "Traceback of TorchScript"
_PLACE = re.compile(r'  File "(.+)", line (\d+), in (.+)')
_HERE = "<--- HERE"


def scripted_frames(message: str, cwd: str) -> list[Frame]:
    """The frames inside the interpreter of TorchScript, outermost first; empty where the error came from elsewhere.

    Of a module that was saved and loaded the text tells its serialised code first, and that of the user's files last.
    """
    lines = message.rpartition(_HEAD)[2].splitlines() if _HEAD in message else []
    out: list[Frame] = []
    for number, text in enumerate(lines):
        found = _PLACE.match(text)
        if found is None or not os.path.isfile(found[1]):
            continue
        block = lines[number + 1 :]
        end = next((i for i, later in enumerate(block) if _PLACE.match(later)), len(block))
        line = int(found[2])
        column, end_line, end_column = _columns(found[1], line, block[:end])
        name, user = shown_file(found[1], cwd), is_user_file(found[1])
        out.append(Frame(name, line, column, end_line, end_column, found[3], user))
    return out


def _columns(path: str, line: int, block: list[str]) -> tuple[int, int, int]:
    """First column, end line and end column of what the text underlines, as the file has it; columns 0 where the two
    do not fit together."""
    at = next((i for i, text in enumerate(block) if text.rstrip().endswith(_HERE)), 0)
    shown, real = block[at - 1] if at else "", line_of(path, line).rstrip("\n")
    if not at or shown.strip() != real.strip() or not real.isascii():
        return 0, line, 0
    shift = len(real) - len(real.lstrip()) - len(shown) + len(shown.lstrip())
    first = block[at].index("~") if "~" in block[at] else -1
    last = block[at].rindex("~")
    return _whole(path, line, first + shift, last + 1 + shift) if first >= 0 else (0, line, 0)


def _whole(path: str, line: int, first: int, last: int) -> tuple[int, int, int]:
    """Of a call TorchScript underlines what is called; told is the call."""
    try:
        tree = ast.parse("".join(lines_of(path)))
    except (SyntaxError, ValueError):
        return first + 1, line, last + 1
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno == line and node.col_offset == first:
            f = node.func
            if (f.end_lineno, f.end_col_offset) == (line, last) and node.end_lineno and node.end_col_offset:
                return first + 1, node.end_lineno, node.end_col_offset + 1
    return first + 1, line, last + 1
