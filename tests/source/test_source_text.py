"""Lines, and positions in characters and bytes."""

from __future__ import annotations

import pytest

from graphdoc.source.module import Lines
from graphdoc.source.places import Place


def test_lines_end_where_python_ends_them():
    lines = Lines("a\r\nb\rc\x0c\u2028d\n\ne")
    assert [lines.content(n) for n in range(1, len(lines) + 1)] == ["a", "b", "c\x0c\u2028d", "", "e"]


def test_columns_in_characters_and_bytes():
    lines = Lines("x\né🤖 = y")
    assert lines.offset(2, 3) == 4
    assert lines.to_bytes(2, 3) == 6
    assert lines.from_bytes(2, 6) == 4
    assert lines.offset(3, 1) is None
    assert lines.offset(2, 8) is None


def test_a_place_from_a_dict_a_frame_and_a_span():
    from graphdoc.evidence import Frame
    from graphdoc.model import Span

    expected = Place("a.py", 1, 2, 1, 4)
    assert Place.of({"file": "a.py", "line": 1, "column": 2, "end_line": 1, "end_column": 4}) == expected
    assert Place.of(Frame("a.py", 1, 2, 1, 4)) == expected
    assert Place.of(Span("cause", "a.py", 1, 2, 1, 4)) == expected
    assert not Place.of(Frame("a.py", 7)).exact
    with pytest.raises(ValueError, match="not a place"):
        Place.of({"file": "a.py"})
