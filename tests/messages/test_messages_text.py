"""Text of strangers: nothing in it may reach a terminal as an order, and places must survive."""

from __future__ import annotations

import pytest

from graphdoc.messages import clean
from graphdoc.messages.flat_text import flatten, squeeze


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("a\x00\x07\x08\x7f\x9bb", "ab"),
        ("\u202eevil\u2066", "evil"),
        ("\x1b", ""),
        ("end\x1b[", "end"),
        ("\ud800", "?"),
        ("größe 日本", "größe 日本"),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected
    clean(text).encode()  # can be written to any file


def test_flat_text_knows_where_it_came_from() -> None:
    text = "one\n\n  two\x1b[1m three\t\tfour"
    flat = flatten(text)
    assert flat.text == "one two three four"
    for word in flat.text.split():
        assert text[flat.original(flat.text.index(word)) :].startswith(word)
    tight = squeeze(flat)
    assert tight.text == "onetwothreefour"
    assert text[tight.original(tight.text.index("four")) :] == "four"


def test_line_ends_are_remembered() -> None:
    flat = flatten("one two\nthree")
    assert flat.line_end(0, len(flat.text)) == 7
    assert flat.line_end(8, len(flat.text)) == len(flat.text)
