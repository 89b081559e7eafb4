"""The source around every place that the page speaks of, each line linked to the boxes and calls that lie on it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from graphdoc.model import Span
from graphdoc.render import story
from graphdoc.render.page.shown_places import Places, box_id, moment_id
from graphdoc.render.page.words import prose
from graphdoc.render.sourceline import SourceLine
from graphdoc.render.text import flat

_WIDTH = 160  # cells of a line


def source_section(places: Places) -> str:
    """The section; empty where no source is known."""
    files = [file for file in places.files if places.shown(file)]
    if not files:
        return ""
    shown = "".join(_file(file, places) for file in files)
    return f"<section id=source aria-labelledby=source-h><h2 id=source-h>The source</h2>{shown}</section>"


def _file(file: str, places: Places) -> str:
    shown = places.shown(file)
    gutter = len(str(shown[-1]))
    rows: list[str] = []
    last = 0
    for line in shown:
        if line > last + 1 and last:
            rows.append("<div class=gutter>...</div>")
        rows.append(_line(file, line, gutter, places))
        last = line
    name = escape(flat(file))
    return f"<h3><code>{name}</code></h3><div class=source>{''.join(rows)}</div>"


def _line(file: str, line: int, gutter: int, places: Places) -> str:
    spans = places.spans.get((file, line), [])
    boxes = places.boxes.get((file, line), [])
    moments = places.moments.get((file, line), [])
    names = [s.role for s in spans]
    kind = "cause" if "cause" in names else "failed" if "failed" in names else "told" if spans else ""
    links = [
        f'<a class="chip {"fatal" if b.fatal else b.state if b.kind == "operations" else b.kind}" href="#{box_id(b)}"'
        f' title="to its box in the graph">{escape(_named(b.kind, b.state))}</a>'
        for b in boxes
    ]
    links += [
        f'<a class="chip time" href="#{moment_id(n)}" title="to the list of calls">calls</a>' for n in moments[-1:]
    ]
    code = _code(places.text(file, line), spans, line)
    labels = [f"<div class='label {_role(s)}'>{prose(text)}</div>" for s, text in _labels(spans)]
    tail = f"<span class=chips>{' '.join(links)}</span>" if links else ""
    head = f'<div id="{places.anchor(file, line)}" class="line {kind}"><span class=gutter>{line:>{gutter}} | </span>'
    return "".join([f"{head}{tail}{code}</div>", *labels])


def _labels(spans: Sequence[Span]) -> list[tuple[Span, str]]:
    told = {story.label(s): s for s in spans if story.label(s)}
    return [(s, text) for text, s in told.items()]


def _role(span: Span) -> str:
    return "primary" if span.role in ("cause", "failed") else "secondary"


def _named(kind: str, state: str) -> str:
    return "graph" if kind != "operations" else f"graph: {state}"


def _code(text: str, spans: Sequence[Span], line: int) -> str:
    """The line, with the places on it marked; what spans several lines is marked to its end."""
    places = sorted((max(0, s.column - 1), s.end_column - 1 if s.end_line <= line else len(text)) for s in spans)
    shown = SourceLine(text, _WIDTH, places)
    out, at = [], 0
    for begin, end in places:
        first, last = max(at, shown.cell(begin)), shown.cell(max(begin, end))
        if not shown.text.isascii() or last <= first:
            continue
        out += [escape(shown.text[at:first]), f"<mark>{escape(shown.text[first:last])}</mark>"]
        at = last
    return "".join([*out, escape(shown.text[at:])])
