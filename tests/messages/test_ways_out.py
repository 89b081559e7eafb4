"""Every known message without a cause has a way out, or is PyTorch's own affair; docs/messages.md lists both."""

from __future__ import annotations

import os
import re
from pathlib import Path

from graphdoc.cli.explaining import explain
from graphdoc.messages.recognise import Entry, entries
from graphdoc.messages.ways_out import ways_out

DOCS = Path(__file__).resolve().parents[2] / "docs" / "messages.md"
MOST_CHARACTERS = 80
"""Of a way out, with ten for each name."""
HEAD = """\
# Messages and what to do about them

Look for a few words of your error on this page, or paste it: `graphdoc explain "MESSAGE"` tells the same.
`graphdoc run` names the line of your program as well. [Warnings](#warnings) stand below the errors.

Each message here has one reason. An error that several faults can have leads to one of the [causes](causes.md).
"""
WARNINGS = """\

## Warnings

They stop no program, and `graphdoc run` leaves them as PyTorch prints them. `graphdoc explain` tells what to do about
one in a log. Where a warning names a file of PyTorch's, `PYTHONWARNINGS=error::UserWarning graphdoc run train.py` names
your line: such a warning is an error then.

| message | what to do |
|---|---|
"""
OWN = """\

## PyTorch's own affair

A training program does not bring these about by itself, or they come from a tool beside the training.

| message | why |
|---|---|
"""


def _without_cause() -> list[Entry]:
    return [e for e in entries() if not e.causes]


def _row(entry: Entry, text: str) -> str:
    words = " ".join(entry.example.split())
    short = words if len(words) <= 90 else words[:89].rstrip() + "…"
    return f"| {short.replace('|', chr(92) + '|').replace('<', '&lt;')} | {text} |\n"


def page() -> str:
    """The whole page."""
    told = [(e, ways_out()[e.id]) for e in _without_cause()]
    errors = [(e, out) for e, out in told if e.kind == "error" and not out.own]
    parts = [HEAD]
    for family in sorted({e.family for e, _ in errors}):
        rows = [_row(e, out.text) for e, out in errors if e.family == family]
        parts.append(f"\n## {family}\n\n| message | what to do |\n|---|---|\n{''.join(rows)}")
    warnings = [_row(e, out.text) for e, out in told if e.kind == "warning" and not out.own]
    return "".join((*parts, WARNINGS, *warnings, OWN, *(_row(e, out.text) for e, out in told if out.own)))


def test_page_is_not_stale() -> None:
    """Re-bless with GRAPHDOC_BLESS=1."""
    if os.environ.get("GRAPHDOC_BLESS"):
        DOCS.write_text(page(), encoding="utf-8")
    assert DOCS.read_text(encoding="utf-8") == page()


def test_each_message_without_a_cause_is_in_the_table_and_no_other() -> None:
    assert set(ways_out()) == {e.id for e in _without_cause()}


def test_ways_out_are_short_and_begin_with_a_small_verb() -> None:
    for ident, out in ways_out().items():
        length = len(re.sub(r"`[^`]*`", "x" * 10, out.text))
        assert out.text[0].islower() and not out.text.endswith(".") and length <= MOST_CHARACTERS, ident


def test_a_pasted_message_gets_its_way_out(capsys) -> None:
    assert explain("RuntimeError: hook '<lambda>' has changed the size of value") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Return a gradient of the shape that came in." in told


def test_a_pasted_warning_gets_its_place_and_its_way_out(capsys) -> None:
    assert explain("train.py:7: UserWarning: `parameters` is an empty generator, no gradient clipping will occur.") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "warned at train.py:7" in told
    assert "Pass a list of the parameters, or call `parameters()` anew for each use." in told
