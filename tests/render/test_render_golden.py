"""Every format of every sample report, word by word. ``GRAPHDOC_BLESS=1`` writes the files anew: then read the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sample_reports import REPORTS, strip_ansi

from graphdoc import causes
from graphdoc.render import FORMATS, render, sarif

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (80, 120, 160)
CASES = [
    *((name, "terminal", width, False) for name in REPORTS for width in WIDTHS),
    *((name, "terminal", 80, True) for name in REPORTS),
    *((name, fmt, 100, False) for name in REPORTS for fmt in FORMATS if fmt != "terminal"),
]


@pytest.mark.parametrize(("name", "fmt", "width", "color"), CASES)
def test_golden(name: str, fmt: str, width: int, color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "find", lambda code: None)  # the pages have their own tests
    monkeypatch.setattr(sarif, "__version__", "0.0.0")
    detail = (f"-{width}" if fmt == "terminal" else "") + ("-color" if color else "")
    path = GOLDEN / f"{name}-{fmt}{detail}.txt"
    text = render(REPORTS[name], fmt, width=width, color=color)
    if os.environ.get("GRAPHDOC_BLESS"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


def test_no_golden_file_is_left_over() -> None:
    assert len(list(GOLDEN.iterdir())) == len(CASES)


@pytest.mark.parametrize("name", REPORTS)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    plain = render(REPORTS[name], "terminal", width=120)
    coloured = render(REPORTS[name], "terminal", width=120, color=True)
    assert coloured != plain
    assert strip_ansi(coloured) == plain
