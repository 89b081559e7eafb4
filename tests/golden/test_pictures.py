"""The pictures of README and docs/ show what graphdoc prints and draws now. ``GRAPHDOC_BLESS=1`` makes them again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
PROGRAM = ROOT / "fixtures/ppo_three_networks_a/train.py"
_CELL, _LINE, _EDGE = 7.85, 18, 18
_RED, _GREEN, _YELLOW, _BLUE, _CYAN = "#ff7b72", "#7ee787", "#d29922", "#79c0ff", "#39c5cf"
_COLOURS = {"31": _RED, "91": _RED, "32": _GREEN, "33": _YELLOW, "94": _BLUE, "96": _CYAN}
_SGR = re.compile(r"\x1b\[([\d;]*)m")


def session(command: str, printed: str) -> str:
    """A terminal with a command and what it prints, in colour, as SVG."""
    lines = [f"$ {command}", *printed.splitlines()]
    wide = 2 * _EDGE + _CELL * max(len(_SGR.sub("", line)) for line in lines)
    high = 2 * _EDGE + _LINE * len(lines)
    rows = [
        f'<text x="{_EDGE}" y="{_EDGE + 13 + _LINE * i}">{_coloured(line)}</text>'
        for i, line in enumerate(lines)
        if line
    ]
    font = '13px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'
    colours = " ".join(f".c{code} {{ fill: {colour}; }}" for code, colour in _COLOURS.items())
    style = f"text {{ font: {font}; fill: #e6edf3; }} .b {{ font-weight: 700; }} {colours}"
    size = f'viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" xml:space="preserve" {size}>',
            f"<title>graphdoc in a terminal</title><style>{style}</style>",
            '<rect width="100%" height="100%" rx="10" fill="#0d1117"/>',
            *rows,
            "</svg>\n",
        ]
    )


def _coloured(line: str) -> str:
    parts, names = [], ""
    for number, text in enumerate(_SGR.split(line)):
        if number % 2:
            codes = text.split(";")
            names = " ".join([*("b" for c in codes if c == "1"), *(f"c{c}" for c in codes if c in _COLOURS)])
        elif text:
            parts.append(
                f'<tspan class="{names}">{escape(text)}</tspan>' if names else f"<tspan>{escape(text)}</tspan>"
            )
    return "".join(parts)


def said(picture: str) -> list[str]:
    """The texts of a picture: where they stand, Graphviz's version says."""
    texts = (element for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("}text"))
    return sorted("".join(text.itertext()) for text in texts)


@pytest.mark.slow
def test_the_pictures_are_what_is_printed_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("pygraphviz")
    (tmp_path / "train.py").write_text(PROGRAM.read_text())
    away = ("GITHUB", "GRAPHDOC", "CI", "NO_COLOR")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(away)}
    environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "FORCE_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "graphdoc", "run", "--report", "svg:graph.svg", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    report = done.stderr[re.search(r"(?:\x1b\[[\d;]*m)*error\[", done.stderr).start() :]  # type: ignore[union-attr]
    made = {"session.svg": session("graphdoc run train.py", report), "graph.svg": (tmp_path / "graph.svg").read_text()}
    for name, text in made.items():
        if os.environ.get("GRAPHDOC_BLESS"):
            PICTURES.mkdir(exist_ok=True)
            (PICTURES / name).write_text(text)
        assert said(text) == said((PICTURES / name).read_text())


def test_the_session_is_the_golden_report() -> None:
    report = (ROOT / "tests/golden/reports/fixtures/ppo_three_networks_a.txt").read_text()
    wanted = ["$ graphdoc run train.py", *filter(None, report.splitlines())]
    assert said((PICTURES / "session.svg").read_text()) == sorted(wanted)
