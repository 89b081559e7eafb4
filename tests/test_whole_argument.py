"""No function takes the whole evidence, or the whole program, where it needs one answer of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "graphdoc"
WRITING = ("capture", "messages")
"""Rooms that fill an evidence in: what they are given is what they work on."""
ASKED = {"Evidence": 2, "Program": 1}
"""Of each, how many attributes one has to read at most to be better given their values."""
MOST_WHOLE = 20
"""Functions that may take the whole evidence: those that make the Program, compare two runs, or draw one."""


def whole_arguments() -> Iterator[tuple[str, str, set[str] | None]]:
    """Each function with such an argument: its name, the type, and what it reads; None where it passes it on whole."""
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).parts[0] in WRITING:
            continue
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            whole = [(a.arg, ast.unparse(a.annotation)) for a in taken if a.annotation is not None]
            whole = [(name, kind) for name, kind in whole if kind in ASKED]
            if len(whole) == 1:  # what takes two of them compares runs
                name, kind = whole[0]
                yield f"{path.relative_to(ROOT)}: {function.name}", kind, read_of(function, name)


def read_of(function: ast.FunctionDef, argument: str) -> set[str] | None:
    """The attributes of the argument that a function reads; None where it uses it in any other way."""
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == argument]
    read = [n for n in ast.walk(function) if isinstance(n, ast.Attribute) and n.value in uses]
    return {n.attr for n in read} if len(read) == len(uses) else None


def test_what_needs_one_answer_takes_that() -> None:
    narrow = [(n, k, sorted(r)) for n, k, r in whole_arguments() if r is not None and len(r) <= ASKED[k]]
    assert not [n for n in narrow if not n[0].endswith(": recognise")]  # all of those take the same


def test_few_take_the_whole_evidence() -> None:
    whole = [n for n, kind, _ in whole_arguments() if kind == "Evidence"]
    assert len(whole) <= MOST_WHOLE, whole
