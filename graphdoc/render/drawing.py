"""The report's drawing: the line to change by itself, then the other places in order of time, a label below each."""

from __future__ import annotations

from collections.abc import Mapping

from graphdoc.model import Diagnosis, Span
from graphdoc.render import story
from graphdoc.render.snippet import snippet
from graphdoc.render.sourceline import SourceLine
from graphdoc.render.text import cells, flat, split_lines, wrap
from graphdoc.render.underlines import Row, locate

HEADING = "how it happened:"


def drawing(
    diagnosis: Diagnosis,
    sources: Mapping[str, str],
    width: int,
    gutter: int,
    most: int = story.MOST_PLACES,
    most_to_change: int | None = None,
) -> list[Row]:
    """The places of a diagnosis, ``most`` of them beside those to change; empty for one without any place."""
    change = story.to_change(diagnosis)[:most_to_change]
    if not change:
        return []
    main = change[0]
    bar: Row = [(" " * gutter + " |", "gutter")]
    rows = [*snippet(change, main, sources, width, gutter), bar]
    places = story.in_time(diagnosis, most)
    if not places:
        return rows
    told = story.numbered(places)
    ordered = sum(number > 0 for number, _ in told) > 1
    if ordered:
        rows.append([(HEADING, "note")])
    file = main.file
    for number, place in told:
        if place.file != file:
            file = place.file
            rows.append([(" " * gutter + "--> ", "gutter"), (f"{flat(file)}:{place.line}", "place")])
        head = f"{number}  " if number and ordered else ""
        rows += _place(place, head, sources, width, gutter)
    rows.append(bar)
    return rows


def _place(place: Span, head: str, sources: Mapping[str, str], width: int, gutter: int) -> list[Row]:
    """One place: its line of code, the underline, and its number (``head``) and label beside it or below."""
    label = story.label(place)
    room = width - gutter - 3
    margin: Row = [(" " * gutter + " | ", "gutter")]
    lines = split_lines(sources[place.file]) if place.file in sources else []
    if not 0 < place.line <= len(lines):
        first, *rest = wrap(label, room - len(head))
        told: list[Row] = [[(f"{place.line:>{gutter}} | ", "gutter"), (head + first, "secondary")]]
        return told + [[*margin, (" " * len(head) + words, "secondary")] for words in rest]
    mark = locate(place, lines)
    text = lines[place.line - 1]
    end = mark.end if mark.end_line == mark.line else len(text.rstrip())
    code = SourceLine(text, room, [(mark.start, end)])
    at = code.cell(mark.start)
    under = "-" * max(1, code.cell(end) - at)
    rows: list[Row] = [[(f"{place.line:>{gutter}} | ", "gutter"), (code.text, "code")]]
    whole = cells(head) + cells(label)
    if at + len(under) + 1 + whole <= room:
        return [*rows, [*margin, (" " * at, ""), (f"{under} {head}{label}", "secondary")]]
    rows.append([*margin, (" " * at, ""), (under, "secondary")])
    left = max(0, min(at, room - min(whole, room)))
    pieces = wrap(label, room - left - len(head))
    starts = [head, *(" " * len(head) for _ in pieces)]
    return [
        *rows,
        *(
            [*margin, (" " * left, ""), (start + piece, "secondary")]
            for start, piece in zip(starts, pieces, strict=False)
        ),
    ]
