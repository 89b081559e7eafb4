"""The page can be read by everybody: contrast of its colours, names of its parts, the order of the keyboard."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import pytest
from sample_reports import PPO
from test_page import DRAWN, PAGES, page

STYLE = resources.files("graphdoc.render").joinpath("page.css").read_text("utf-8")
COLORS = {m[1]: (m[2], m[3]) for m in re.finditer(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLE)}
TEXT = [
    *((ink, paper) for ink in ("ink", "error", "warning", "other", "good", "quiet") for paper in ("paper", "panel")),
    *((ink, "hit") for ink in ("ink", "error", "other", "quiet")),
    *((ink, ground) for ink in ("keyword", "string") for ground in ("panel", "hit")),
    *((ink, box) for ink in ("ink", "quiet") for box in ("live", "gone", "stale", "bad")),
    *((chip, "paper") for chip in ("live-edge", "gone-edge", "stale-edge")),
]
"""What is written in which colour on which; WCAG 2.2 asks for 4.5 to 1 (1.4.3)."""
SHAPES = [
    *((f"{state}-edge", ground) for state in ("live", "gone", "stale") for ground in (state, "paper")),
    *((f"o{n}", ground) for n in range(1, 7) for ground in ("paper", "panel", "hit")),
    *(("error", ground) for ground in ("paper", "bad", "stale")),
    *(("other", ground) for ground in ("paper", "panel", "hit")),
    ("live-edge", "hit"),
    ("quiet", "paper"),
]
"""What is drawn on which: frames, arrows, dots, the mark of the keyboard; 3 to 1 (1.4.11)."""


def contrast(one: str, other: str) -> float:
    """How far two colours are apart, 1 to 21: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""

    def light(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_are_told_apart(scheme: int) -> None:
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54  # the grey that is known to pass on white
    faint = [
        (*pair, round(ratio, 2))
        for pairs, least in ((TEXT, 4.5), (SHAPES, 3.0))
        for pair in pairs
        if (ratio := contrast(*(COLORS[name][scheme] for name in pair))) < least
    ]
    assert not faint
    used = set(re.findall(r"(?:color|fill|stroke|background|solid): ?var\(--([\w-]+)\)", STYLE)) - {"rule"}
    assert used <= {name for pair in (*TEXT, *SHAPES) for name in pair}


class Parts(HTMLParser):
    """The parts of a page by the names that a screen reader calls them, and the stops of the keyboard, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.named: list[str] = []
        self.sections: list[str] = []
        self.stops: list[str] = []
        self.depths: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        name = told.get("aria-label") or told.get("aria-labelledby", "")
        if (tag in ("nav", "section") and name) or told.get("role") == "region":
            self.named.append(name)
        if tag == "section" and "id" in told:
            self.sections.append(told["id"])
        if "tabindex" in told:
            self.depths.append(told["tabindex"])
        if tag == "a":
            self.stops.append(told["href"])


def test_each_part_has_a_name_of_its_own_and_stands_where_the_head_of_the_page_says() -> None:
    text = page(replace(PAGES["ppo"], diagnoses=PPO.diagnoses * 2))
    parts = Parts(text)
    names = [re.findall(f"id={n}>([^<]*)<", text)[0] if n.endswith("-h") else n for n in parts.named]
    assert len(set(names)) == len(names) > 4 and all(names)
    assert parts.stops[: len(parts.sections)] == [f"#{part}" for part in parts.sections]
    assert {"curves", "graph", "source", "story", "calls"} == set(parts.sections)
    assert set(parts.depths) == {"0"}


def test_the_keyboard_goes_through_the_boxes_from_above_to_below() -> None:
    pytest.importorskip("pygraphviz")
    text = page(PAGES["ppo"])
    boxes = re.findall(r'<g id="b\d+"[^>]*>.*?<rect x="[^"]*" y="([^"]*)"', text)
    heights = [float(y) for y in boxes]
    assert len(heights) == len(DRAWN.boxes) and heights == sorted(heights)
