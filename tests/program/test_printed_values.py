"""A number that is printed goes into no loss."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.printed_values import is_only_printed


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("print(i, loss.item())", True),
        ("writer.add_scalar('loss', loss.item(), i)", True),
        ("losses.append(loss.item())", False),
        ("total = print(loss.item())", False),
        ("show(loss.item())", False),
    ],
)
def test_what_only_prints_is_told_from_what_keeps(line: str, printed: bool) -> None:
    start = line.index("loss.item()") + 1
    assert is_only_printed({"train.py": line + "\n"}, Frame("train.py", 1, start, 1, start + 11)) is printed
