"""libcst reads every changed statement as a concrete tree, and writes it again to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.source.concrete import changed_statements, unfaithful
from graphdoc.source.module import Source

UGLY = sorted((Path(__file__).parents[1] / "ugly").glob("*.py"))


def pair(old: str, new: str) -> tuple[Source, Source]:
    return Source("train.py", old), Source("train.py", new)


def test_only_what_changed_is_read() -> None:
    old, new = pair("a = 1\nb = 2  # two\nc = 3\n", "a = 1\nb = 20  # two\nc = 3\n")
    assert changed_statements(old, new) == ["b = 20  # two\n"]
    assert unfaithful(old, new) == ""


def test_statements_on_one_line_are_one() -> None:
    old, new = pair("a = 1; b = 2\nc = 3\n", "a = 1; b = 3\nc = 3\n")
    assert changed_statements(old, new) == ["a = 1; b = 3\n"]


@pytest.mark.parametrize("tail", ["\n   \n", "\n\t\n# end\n", "\r\n  \r\n", "   ", "# end"])
def test_blank_lines_behind_a_statement_are_no_fault(tail: str) -> None:
    old, new = pair("def f(x):\n    return x\n" + tail, "def f(x):\n    return -x\n" + tail)
    assert unfaithful(old, new) == ""


def test_a_broken_statement_is_refused() -> None:
    old = Source("train.py", "a = 1\n")
    new = Source("train.py", "a = 2\n")
    assert new.tree is not None and len(new.lines)  # read before the text is broken
    vars(new)["code"] = "a = (\n"  # as if a splice had gone wrong after the interpreter's own check
    assert "cannot be read" in unfaithful(old, new)


@pytest.mark.parametrize("path", UGLY, ids=lambda p: p.name)
def test_ugly_sources_are_written_as_they_are_read(path: Path) -> None:
    encoding = "latin-1" if path.name == "latin1.py" else "utf-8"
    text = path.read_bytes().decode(encoding)
    assert unfaithful(Source("ugly.py", ""), Source("ugly.py", text)) == ""


def test_what_libcst_writes_otherwise_already_is_no_reason() -> None:
    old = "def f(x):\n        if x:\n                a()\n       \telse:\n                b(x)\n"
    new = old.replace("b(x)", "b(x.mean())")
    assert unfaithful(Source("train.py", old), Source("train.py", new)) == ""
