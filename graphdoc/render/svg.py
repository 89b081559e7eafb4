"""The graph alone, as one picture with its title and its key: for an issue, a chat or slides."""

from __future__ import annotations

import re
from html import escape
from importlib import resources

from graphdoc.model import Report
from graphdoc.render import story
from graphdoc.render.page.graph_svg import MISSING, drawing, entries_of
from graphdoc.render.page.source import Places
from graphdoc.render.text import cells, flat, wrap

BEGINS = re.compile(r'<svg xmlns="http://www\.w3\.org/2000/svg"[^>]*>\n<title>graphdoc: ')

_CELL, _LINE, _EDGE = 7.25, 20, 16
_NARROWEST = 640.0
_LINKS = re.compile(r"</?a\b[^>]*>")
_VIEW = re.compile(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)">')
_COLOUR = re.compile(r"(--[\w-]+): light-dark\((#\w+), (#\w+)\);")


def render(report: Report, *, width: int, color: bool) -> str:
    """A picture that loads nothing; its colours follow the reader's light or dark. Of the first diagnosis alone."""
    first = report.diagnoses[0] if report.diagnoses else None
    title = f"{story.level(report)}[{first.code}]: {flat(first.title)}" if first else story.verdict(report)
    layout, graph = drawing(report.picture, Places(report))
    gaps: tuple[str, ...] = ()
    if layout is None:
        gaps = (MISSING,) if report.picture.boxes else report.picture.gaps or ("No graph was recorded.",)
    view = _VIEW.search(graph)
    wide, high = (float(view[1]), float(view[2])) if view is not None else (0.0, 0.0)
    key = entries_of(report.picture) if view is not None else []
    wide = max(_NARROWEST, wide, *(34 + _CELL * cells(flat(told)) for _, told in key))
    parts: list[str] = []
    y = float(_EDGE)
    for line in wrap(title, int(wide / _CELL)):
        parts.append(_text(_EDGE, y + 14, line, "t0"))
        y += _LINE
    for line in (one for gap in gaps for one in wrap(gap, int(wide / _CELL))):
        parts.append(_text(_EDGE, y + 14, line, "t2"))
        y += _LINE
    y += 8
    if view is not None:
        inner = _LINKS.sub("", graph[view.end() :].removesuffix("</svg>"))
        parts.append(f'<g transform="translate({_EDGE} {y:.0f})">{inner}</g>')
        y += high + 8
    for swatch, told in key:
        parts.append(f'<g transform="translate({_EDGE} {y:.0f})">{swatch}</g>')
        parts.append(_text(_EDGE + 34, y + 12, told.replace("`", ""), "t2"))
        y += _LINE
    wide, high = wide + 2 * _EDGE, y + _EDGE
    size = f'width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" {size}>',
        f"<title>graphdoc: {escape(title)}</title>",
        f"<style>\n{_style()}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
    ]
    return "\n".join([*head, *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, name: str) -> str:
    return f'<g class="box"><text class="{name}" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text></g>'


def _style() -> str:
    """The page's rules for the graph with their colours in place of names, which few programs but browsers know."""
    page = resources.files("graphdoc.render").joinpath("page.css").read_text("utf-8")
    rules = [
        line
        for line in page[page.index("svg.graph {") : page.index(".key {")].splitlines()
        if not line.startswith((".scroll", ".box a", ".box:target"))
    ]
    rules.append(".paper { fill: var(--paper); }")
    light = {name: one for name, one, _ in _COLOUR.findall(page)}
    dark = {name: one for name, _, one in _COLOUR.findall(page)}
    plain, coloured = "\n".join(rules), "\n".join(rule for rule in rules if "var(" in rule)
    return f"{_filled(light, plain)}\n@media (prefers-color-scheme: dark) {{\n{_filled(dark, coloured)}\n}}\n"


def _filled(colours: dict[str, str], rules: str) -> str:
    return re.sub(r"var\((--[\w-]+)\)", lambda match: colours[match[1]], rules)
