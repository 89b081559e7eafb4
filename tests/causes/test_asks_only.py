"""A cause's ``recognise`` asks the model which facts hold, at a glance; another function tells the story.

Where a decorator asks (``@explained("nan-pow")``), what it stands above is that other function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

CAUSES = Path(__file__).resolve().parents[2] / "graphdoc" / "causes"
LONGEST = 15
MEDIAN = 8
"""Lines, with the heading and the docstring."""


def asking() -> Iterator[tuple[Path, ast.FunctionDef]]:
    """The functions that ask, each with its file."""
    for path in sorted(CAUSES.glob("*/*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef) and function.name == "recognise" and not function.decorator_list:
                yield path, function


def lengths() -> dict[str, int]:
    """How many lines the test of each cause has."""
    return {path.stem: f.end_lineno - f.lineno + 1 for path, f in asking() if f.end_lineno}


def test_what_has_to_hold_is_read_at_a_glance() -> None:
    found = lengths()
    assert not {name: n for name, n in found.items() if n > LONGEST}
    assert median(found.values()) <= MEDIAN


def test_no_cause_makes_its_finding_where_it_asks() -> None:
    for path, function in asking():
        calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in ("Finding", "span")], path
