"""The graph as inline SVG with its key, laid out by Graphviz, and the same as a list for those who cannot see it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from graphdoc.render.page.source import Places, box_id, hue, prose
from graphdoc.render.text import cells, flat
from graphdoc.shapes import Arrow, Box, Picture

Point = tuple[float, float]

LIMIT = 20.0
"""Seconds that a layout may take; sixty boxes take a few hundredths."""
MISSING = "The graph is listed, not drawn: drawing needs `pip install 'torch-graphdoc[page]'`."
_DOT = (
    "import sys, pygraphviz as p; sys.stdout.buffer.write(p.AGraph(sys.stdin.read()).draw(format='plain', prog='dot'))"
)
_INCH = 72.0
_WIDE = 1400.0
"""Pixels from which on a drawing from above to below is drawn from left to right, if that is narrower."""


@dataclass(frozen=True)
class Layout:
    """In pixels, from the upper left corner. ``centres`` by box, ``paths`` by arrow (spline points, three for each
    piece after the first point); an arrow that was not laid out is missing."""

    width: float
    height: float
    centres: dict[int, Point]
    paths: dict[tuple[int, int], list[Point]]


def lay_out(sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int, bool]]) -> Layout | None:
    """The layout of boxes of these sizes (width, height in pixels), or None where there is nothing to lay it out with.

    It runs in a process of its own: a fault in a library of C takes the drawing, not the report. Only numbers go there.

    Args:
        arrows: (tail, head, whether the tail has to stand above the head).
    """
    if not sizes or importlib.util.find_spec("pygraphviz") is None:
        return None
    lines = ['node [shape=box, fixedsize=true, label=""];']
    lines += [f'{i} [width="{w / _INCH:.3f}", height="{h / _INCH:.3f}"];' for i, (w, h) in enumerate(sizes)]
    lines += [f"{a} -> {b}{'' if binding else ' [constraint=false]'};" for a, b, binding in dict.fromkeys(arrows)]
    found = _drawn("TB", lines)
    if found is None or found.width <= _WIDE:
        return found
    aside = _drawn("LR", lines)
    return aside if aside is not None and aside.width < found.width else found


def _drawn(direction: str, lines: Sequence[str]) -> Layout | None:
    head = f'digraph {{ graph [rankdir={direction}, nodesep="0.25", ranksep="0.42"];'
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _DOT],
            input="\n".join([head, *lines, "}"]).encode(),
            capture_output=True,
            timeout=LIMIT,
            check=True,
        )
        return _read(done.stdout.decode())
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _read(text: str) -> Layout:
    """Graphviz's ``plain`` format: inches, from the lower left corner."""
    width = height = 0.0
    centres: dict[int, Point] = {}
    paths: dict[tuple[int, int], list[Point]] = {}
    for line in text.splitlines():
        words = line.split()
        if words[0] == "graph":
            width, height = float(words[2]) * _INCH, float(words[3]) * _INCH
        elif words[0] == "node":
            centres[int(words[1])] = (float(words[2]) * _INCH, height - float(words[3]) * _INCH)
        elif words[0] == "edge":
            numbers = [float(w) * _INCH for w in words[4 : 4 + 2 * int(words[3])]]
            paths[int(words[1]), int(words[2])] = [
                (x, height - y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)
            ]
    return Layout(width, height, centres, paths)


# What the boxes and arrows of the drawn graph look like, and the key that says so.

_KEY = (
    ("live", "operations still in memory"),
    ("released", "released by an earlier call"),
    ("stale", "saved values overwritten since"),
    ("call", "a call of the program"),
    ("write", "a write in place"),
    ("gap", "where the chain ends"),
    ("value", "passes on a value that is not finite"),
)
_WAYS = (
    ("fatal", "the edge at which it failed"),
    ("freed", "releases"),
    ("overwrites", "overwrites"),
    ("broken", "no gradient passes"),
    ("carries", "passes the value on"),
)


def box_class(box: Box, picture: Picture) -> str:
    """The names by which the style sheet knows a box."""
    names = ["box", box.kind if box.kind != "operations" else box.state]
    names += [name for name, on in (("older", box.older), ("fatal", box.fatal)) if on]
    if box.kind == "parameters":
        names.append(f"o{hue(picture.optimizers, box.optimizers[0]) if box.optimizers else 0}")
    return " ".join(names)


def key(picture: Picture) -> str:
    """A list of what occurs in this drawing."""
    drawn = "<svg class=graph width=26 height=16 aria-hidden=true>{}</svg>"
    return (
        "<ul class=key>"
        + "".join(f"<li>{drawn.format(swatch)}{prose(told)}</li>" for swatch, told in entries_of(picture))
        + "</ul>"
    )


def entries_of(picture: Picture) -> list[tuple[str, str]]:
    """What occurs in this drawing: a swatch of 26 by 16 pixels, and what it stands for."""
    seen = {name for box in picture.boxes for name in box_class(box, picture).split()}
    ways = {arrow.way for arrow in picture.arrows}
    entries = [(_rect(name), told) for name, told in _KEY if name in seen]
    if "older" in seen:
        entries.append((_rect("live older"), "dashed: made before the latest backward call"))
    if any(box.fatal and box.kind != "parameters" for box in picture.boxes):
        entries.append((_rect("call fatal"), "where it went wrong"))
    if any(box.fatal and box.kind == "parameters" for box in picture.boxes):
        entries.append((_rect("parameters fatal"), "the parameters concerned"))
    entries += [(f'<path class="arrow {way}" d="M1 8L25 8"/>', told) for way, told in _WAYS if way in ways]
    owners = {o for box in picture.boxes for o in box.optimizers}
    for ident, name in picture.optimizers:
        if ident in owners:
            swatch = _rect(f"parameters o{hue(picture.optimizers, ident)}")
            entries.append((swatch, f"trained by `{name}`"))
    if any(box.kind == "parameters" and not box.optimizers for box in picture.boxes):
        entries.append((_rect("parameters o0"), "in no optimizer"))
    return entries


def _rect(names: str) -> str:
    return f'<g class="box {names}"><rect x="2" y="2" width="22" height="12" rx="3"/></g>'


# The graph as inline SVG, and the same as a list for those who cannot see it.

WIDEST = 29
"""Cells of a box's text."""
_CELL, _LINE, _PAD = 7.25, 17.0, 10.0
_EDGE = 6.0  # pixels around the drawing
_FEWEST = 14
_BROAD = 1000.0  # pixels of a drawing that leaves no room for the source beside it
_SMALLEST = 0.7
"""Of its size, to which a drawing shrinks with the window; in a narrower one it is scrolled, since its text could not
be read."""
_KIND = {
    "operations": "operations",
    "parameters": "parameters",
    "call": "call",
    "write": "write",
    "gap": "cut",
    "value": "value",
}
_ASIDE = ("freed", "overwrites")
"""Arrows that say what a call did; the calls stand where there is room for them."""
_DOES = {
    "gradient": "leads to",
    "fatal": "fails at",
    "freed": "releases",
    "overwrites": "overwrites",
    "broken": "does not reach",
    "carries": "passes its value to",
}


def graph_section(picture: Picture, places: Places) -> tuple[str, str]:
    """The heading, the drawing or a line on why there is none, its key and the list; empty without any box. Beside it
    the rule of the style sheet by which the drawing fits into the window."""
    gaps = "".join(f"<p class=gap>{prose(gap)}</p>" for gap in picture.gaps)
    if not picture.boxes:
        return gaps, ""
    layout, svg = drawing(picture, places)
    broad = layout is not None and layout.width > _BROAD
    parts = [
        f"<section id=graph{' class=broad' if broad else ''} aria-labelledby=graph-h><h2 id=graph-h>The graph</h2>",
        _about(picture),
    ]
    if layout is None:
        parts.append(f"<p class=gap>{prose(MISSING)}</p>")
    else:
        parts += [f"<div class=scroll tabindex=0 role=region aria-label='The drawn graph'>{svg}</div>", key(picture)]
    opened = " open" if layout is None else ""
    parts.append(
        f"<details{opened}><summary>The graph as a list</summary>{_list(picture, places, layout is None)}</details>"
    )
    narrowest = (layout.width + 2 * _EDGE) * _SMALLEST if layout is not None else 0
    rule = f"@media screen {{ .scroll > svg.graph {{ min-width: {narrowest:.0f}px; }} }}\n" if narrowest else ""
    return "\n".join([*parts, gaps, "</section>"]), rule


def drawing(picture: Picture, places: Places) -> tuple[Layout | None, str]:
    """Where everything stands, and the drawing as SVG; neither where there is nothing to lay it out with."""
    lines = [_lines(box, picture, places) for box in picture.boxes]
    sizes = [(max(_FEWEST, *(cells(t) for t in told)) * _CELL + 2 * _PAD, len(told) * _LINE + _PAD) for told in lines]
    layout = lay_out(sizes, [(a.tail, a.head, a.way not in _ASIDE) for a in picture.arrows])
    return layout, _svg(picture, places, layout, lines, sizes) if layout is not None else ""


def _about(picture: Picture) -> str:
    if not picture.nodes:
        return ""
    boxes = sum(box.kind in ("operations", "parameters") for box in picture.boxes)
    return f"<p>{picture.nodes:,} nodes in {boxes} boxes, folded by source line; arrows show how gradients flow.</p>"


def _lines(box: Box, picture: Picture, places: Places) -> list[str]:
    """What stands in a box, one text a line."""
    place = places.name(box.file, box.line)
    code = " ".join(places.text(box.file, box.line).split())
    note = box.note
    if box.last:
        place, note, code = f"{place} to {box.last}", "", " \u00b7 ".join(t for t in (box.text, note) if t)
    if box.kind == "parameters":
        names = dict(picture.optimizers)
        owners = ", ".join(names.get(o, "?") for o in box.optimizers) or "in no optimizer"
        told = [box.text, box.note, owners]
    elif box.kind == "operations":
        ops = ", ".join(f"{op} \u00d7{n}" if n > 1 else op for op, n in box.ops)
        told = [" \u00b7 ".join(t for t in (place or box.text, note) if t), code, ops or box.text]
    else:
        told = [" \u00b7 ".join(t for t in (box.text, place) if t), code, box.note]
    return [_clip(flat(text)) for text in told if text]


def _clip(text: str) -> str:
    if cells(text) <= WIDEST:
        return text
    while cells(text) >= WIDEST:
        text = text[:-1]
    return text.rstrip() + "\u2026"


def _svg(
    picture: Picture, places: Places, layout: Layout, lines: list[list[str]], sizes: list[tuple[float, float]]
) -> str:
    wide, high = layout.width + 2 * _EDGE, layout.height + 2 * _EDGE
    ways = sorted({arrow.way for arrow in picture.arrows})
    heads = "".join(
        f'<marker id="head-{way}" class="{way}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7"'
        ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z"/></marker>'
        for way in ways
    )
    drawn = [
        f'<svg class="graph" role="group" aria-labelledby="graph-t graph-d" width="{wide:.0f}" height="{high:.0f}"'
        f' viewBox="0 0 {wide:.0f} {high:.0f}">',
        '<title id="graph-t">The graph of the call</title>',
        f'<desc id="graph-d">{escape(_described(picture))}</desc><defs>{heads}</defs>',
    ]
    for arrow in sorted(picture.arrows, key=lambda a: a.way == "fatal"):
        drawn.append(_arrow(arrow, layout.paths.get((arrow.tail, arrow.head), [])))
    placed = zip(picture.boxes, lines, sizes, strict=True)
    at = {box.id: layout.centres.get(box.id, (0.0, 0.0)) for box in picture.boxes}
    # The order in the file is that in which the keyboard goes through them: from above to below, as they are seen.
    for box, told, (w, h) in sorted(placed, key=lambda one: (at[one[0].id][1], at[one[0].id][0])):
        x, y = at[box.id]
        drawn.append(_box(box, picture, places, told, (x - w / 2 + _EDGE, y - h / 2 + _EDGE, w, h)))
    return "".join([*drawn, "</svg>"])


def _described(picture: Picture) -> str:
    fatal = [box for box in picture.boxes if box.fatal]
    told = ", ".join(f"{box.text or box.kind} {box.state}" for box in fatal[:3])
    count = len(picture.boxes)
    return f"{count} boxes, {len(picture.arrows)} arrows." + (f" Where it failed: {flat(told)}." if told else "")


def _arrow(arrow: Arrow, points: list[Point]) -> str:
    if len(points) < 2:
        return ""
    moved = [f"{x + _EDGE:.1f} {y + _EDGE:.1f}" for x, y in points]
    path = f"M{moved[0]}C{' '.join(moved[1:])}"
    count = f"<title>{arrow.count} edges</title>" if arrow.count > 1 else ""
    head = "" if arrow.way == "broken" else f' marker-end="url(#head-{arrow.way})"'
    line = f'<path class="arrow {arrow.way}" d="{path}"{head}>{count}</path>'
    if arrow.way not in ("fatal", "broken"):
        return line
    x, y = _middle(points)
    return line + f'<path class="cross {arrow.way}" d="M{x + _EDGE - 6:.1f} {y + _EDGE - 6:.1f}l12 12m0 -12l-12 12"/>'


def _middle(points: list[Point]) -> Point:
    """The middle of the middle piece of a spline."""
    start = 3 * ((len(points) - 1) // 6)
    a, b, c, d = (points[min(start + i, len(points) - 1)] for i in range(4))
    return (a[0] + 3 * b[0] + 3 * c[0] + d[0]) / 8, (a[1] + 3 * b[1] + 3 * c[1] + d[1]) / 8


def _box(box: Box, picture: Picture, places: Places, told: list[str], at: tuple[float, float, float, float]) -> str:
    x, y, w, h = at
    shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{2 if box.kind == "write" else 7}"/>'
    texts = "".join(
        f'<text x="{x + _PAD:.1f}" y="{y + _PAD / 2 + (i + 0.72) * _LINE:.1f}" class="t{i}">{escape(text)}</text>'
        for i, text in enumerate(told)
    )
    inside = f"<title>{escape(_title(box, picture, places))}</title>{shape}{texts}"
    anchor = places.anchor(box.file, box.line)
    if anchor:
        inside = f'<a href="#{anchor}">{inside}</a>'
    return f'<g id="{box_id(box)}" class="{box_class(box, picture)}">{inside}</g>'


def _title(box: Box, picture: Picture, places: Places) -> str:
    """All of what a box clips, in words."""
    names = dict(picture.optimizers)
    told = [f"{_KIND[box.kind]} {box.text}".strip()]
    told += (
        [f"{flat(box.file)} line {box.line}{f' to {box.last}' if box.last else f': {places.text(box.file, box.line)}'}"]
        if box.line
        else []
    )
    if box.kind == "operations" and box.nodes:
        nodes = f"{box.nodes} node" + "s" * (box.nodes != 1)
        told.append(f"{nodes}, {box.state}: " + ", ".join(f"{op} {n}" for op, n in box.ops[:12]))
    if box.parameters:
        told.append(", ".join(box.parameters[:24]) + (" \u2026" if len(box.parameters) > 24 else ""))
    if box.kind == "parameters":
        told.append("trained by " + (", ".join(names.get(o, "?") for o in box.optimizers) or "no optimizer"))
    return flat("; ".join([*told, *([box.note] if box.note else [])]))


def _list(picture: Picture, places: Places, alone: bool) -> str:
    """``alone``: there is no drawing, and links to a box lead here."""
    rows = []
    for box in picture.boxes:
        told = prose(_title(box, picture, places))
        anchor = places.anchor(box.file, box.line)
        if anchor:
            told = f'<a href="#{anchor}">{told}</a>'
        heads = [f"{_DOES[a.way]} {a.head + 1}" for a in picture.arrows if a.tail == box.id]
        ident = f' id="{box_id(box)}"' if alone else ""
        rows.append(f"<li{ident}>{told}{': ' if heads else ''}{', '.join(heads)}</li>")
    return f"<ol>{''.join(rows)}</ol>"
