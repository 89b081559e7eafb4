"""Who reads a tensor, by whatever name, behind the statement that writes it in place."""

from __future__ import annotations

import textwrap

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.writers import read_by_another_name


@pytest.mark.parametrize(
    ("body", "other"),
    [
        ("h = x\nx += 1\nreturn h + x", "h"),
        ("x += 1\nreturn x", ""),
        ("h = act(x)\nreturn h + x", "x"),  # an activation in place: the skip connection sees it
        ("h = act(x)\nreturn h", ""),
        ("x = act(x)\nreturn x", ""),
        ("h = act(x)\nx = f(h)\nreturn x", ""),
        ("x[:2] = act(x[:2])\nreturn x", ""),  # a part of it is written, under its own name
    ],
)
def test_the_name_that_sees_the_write(body: str, other: str) -> None:
    text = "def forward(x):\n" + textwrap.indent(body, "    ") + "\n"
    line = next(i for i, t in enumerate(text.splitlines(), 1) if "+=" in t or "act(" in t)
    frame = Frame("train.py", line, 5, line, 15, "forward", True)
    assert read_by_another_name({"train.py": text}, frame, "x") == other
