"""The story drawn into the source, as styled rows: the line to change, then the others in order; and a patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphdoc.line_changes import Change, parse
from graphdoc.model import Diagnosis, Fix, Span
from graphdoc.render import story
from graphdoc.render.text import cells, flat, split_lines, wrap
from graphdoc.render.underlines import NARROWEST, Canvas, Mark, Row, SourceLine, columns, label_left, locate, underlines

# A patch as a person reads it: only the lines that change, with their numbers in the file as it is.


_GAP: Row = [("...", "gutter")]
MOST_ROWS = 30  # rows; the whole patch is one command away


def highest_line(diff: str) -> int:
    """The highest line number that ``change_rows`` may print for this diff."""
    changes = [c for file in parse(diff) for c in file.changes]
    return max((c.old_start + len(c.old) for c in changes), default=1)


def change_rows(
    fix: Fix, main_file: str, width: int, gutter: int, most: int = MOST_ROWS, mends: str = "graphdoc fix"
) -> list[Row]:
    """The changed lines of a fix, old above new; a file's name stands above them unless it is ``main_file`` alone.

    ``mends`` is the command that prints those beyond ``most`` of them.
    """
    rows: list[Row] = []
    files = parse(fix.diff)
    for file in files:
        if len(files) > 1 or file.path != main_file:
            rows.append([(" " * gutter + "--> ", "gutter"), (flat(file.path), "place")])
        shown = 0  # the last line of the old text that is on the screen or gone
        for change in file.changes:
            first = change.old_start - (not change.old and change.before is not None)
            if shown and first > shown + 1:
                rows.append(_GAP)
            rows += _rows(change, width, gutter, context=first > shown)
            shown = change.old_start + len(change.old) - 1
    if len(rows) > most:
        end = most - 2 if rows[most - 2] == _GAP else most - 1
        left = sum(row != _GAP for row in rows[end:])
        printed = f": `{mends} --diff`" if fix.is_complete else ""
        rows[end:] = [[*_GAP, (f" {left} more lines{printed}", "")]]
    return rows


def _rows(change: Change, width: int, gutter: int, *, context: bool) -> list[Row]:
    room = width - gutter - 3
    rows: list[Row] = []
    if not change.old and change.before is not None and context:  # shows where the new lines go
        text = SourceLine(change.before.removesuffix("\r"), room).text
        rows.append([(f"{change.old_start - 1:>{gutter}} | ", "gutter"), (text, "code")])
    pairs = len(change.old) == len(change.new)
    # A line of a file with Windows line ends is drawn without its own.
    old, new = ([line.removesuffix("\r") for line in lines] for lines in (change.old, change.new))
    for sign, lines, others, style in (("-", old, new, "removed"), ("+", new, old, "added")):
        for i, line in enumerate(lines):
            part = _differing(line, others[i]) if pairs else (0, 0)
            code = SourceLine(line, room, [part])
            a, b = (code.cell(part[0]), code.cell(part[1])) if code.text.isascii() else (0, 0)
            number = change.old_start + i if sign == "-" else ""  # a new line has none in the file as it is
            rows.append(
                [
                    (f"{number:>{gutter}} ", "gutter"),
                    (f"{sign} {code.text[:a]}", style),
                    (code.text[a:b], f"{style}-part"),
                    (code.text[b:], style),
                ]
            )
    return rows


def _differing(line: str, other: str) -> tuple[int, int]:
    """The part of ``line`` between what both lines begin and end with."""
    limit = min(len(line), len(other))
    begin = 0
    while begin < limit and line[begin] == other[begin]:
        begin += 1
    end = 0
    while end < limit - begin and line[-1 - end] == other[-1 - end]:
        end += 1
    return begin, len(line) - end


_WHOLE = 6  # a multi-line span of up to so many lines is shown in full, a longer one without its middle


def snippet(spans: Sequence[Span], main: Span, sources: Mapping[str, str], width: int, gutter: int) -> list[Row]:
    """The drawing of all spans, the main place's file first. ``gutter`` is the width of the widest line number."""
    rows: list[Row] = []
    files = list(dict.fromkeys([main.file, *(s.file for s in story.in_order(spans))]))
    for file in files:
        here = [s for s in story.in_order(spans) if s.file == file]
        first = main if main.file == file else next((s for s in here if s.role == "cause"), here[0])
        if rows:
            rows.append([(" " * gutter + " |", "gutter")])
        rows.append([(" " * gutter + "--> ", "gutter"), (f"{flat(file)}:{first.line}:{first.column}", "place")])
        rows.append([(" " * gutter + " |", "gutter")])
        lines = split_lines(sources[file]) if file in sources else []
        rows += _Block(here, lines, width, gutter).rows()
    return rows


def gutter_width(diagnosis: Diagnosis) -> int:
    """Digits of the widest line number that the diagnosis shows, those of the best fix's patch included."""
    numbers = [max(s.line, s.end_line) for s in diagnosis.spans]
    if diagnosis.fixes:
        numbers.append(highest_line(diagnosis.fixes[0].diff))
    return len(str(max(numbers, default=1)))


class _Block:
    """The drawing of one file."""

    def __init__(self, spans: Sequence[Span], lines: list[str], width: int, gutter: int) -> None:
        self.lines = lines
        marks = list(dict.fromkeys(locate(s, lines) for s in spans))
        self.known = [m for m in marks if m.line <= len(lines)]
        self.unknown = sorted((m for m in marks if m.line > len(lines)), key=lambda m: m.line)
        self.bars = columns([m for m in self.known if m.end_line > m.line])
        self.marks = [m for m in self.known if m.end_line == m.line]
        self.indent = 2 * (1 + max((b.column for b in self.bars), default=-1))
        self.gutter = gutter
        self.width = width - gutter - 3 - self.indent

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        shown = self._shown()
        for before, line in zip([shown[0] - 1 if shown else 0, *shown], shown, strict=False):
            if line > before + 1:
                across = [b for b in self.bars if b.line <= before and b.end_line >= line]
                rows.append([("...".ljust(self.gutter + 3), "gutter"), *self._rails(across).row()])
            rows += self._line(line)
        for mark in self.unknown:  # the place is known, its text is not
            rows += self._listed(mark)
        return rows

    def _shown(self) -> list[int]:
        """Line numbers to print. One missing line is shown rather than elided: dots would take as much room."""
        wanted = {m.line for m in self.marks}
        for bar in self.bars:
            whole = bar.end_line - bar.line < _WHOLE
            wanted |= set(range(bar.line, bar.end_line + 1)) if whole else {bar.line, bar.line + 1, bar.end_line}
        return sorted(wanted | {n + 1 for n in wanted if n + 2 in wanted})

    def _line(self, number: int) -> list[Row]:
        """A code line and all that hangs below it."""
        marks = [m for m in self.marks if m.line == number]
        starts = [b for b in self.bars if b.line == number]
        ends = [b for b in self.bars if b.end_line == number]
        focus = [(m.start, m.end) for m in sorted(marks, key=lambda m: not m.primary)]
        focus += [(b.start, b.start + 1) for b in starts] + [(max(0, b.end - 1), b.end) for b in ends]
        code = SourceLine(self.lines[number - 1], self.width, focus)
        slashed = [b for b in starts if b.start <= code.indent]
        rails = self._rails([b for b in self.bars if b.line < number <= b.end_line])
        for bar in slashed:
            rails.put(2 * bar.column, "/", bar.style)
        rows = [[(f"{number:>{self.gutter}} | ", "gutter"), *rails.row(self.indent), (code.text, "code")]]

        running = [b for b in self.bars if b.line < number <= b.end_line] + slashed
        for canvas in underlines(marks, code, self.width):
            rows.append(self._below(running, canvas))
        for bar in starts:
            if bar not in slashed:
                canvas = Canvas()
                at = self.indent + code.cell(bar.start)
                canvas.put(2 * bar.column + 1, "_" * (at - 2 * bar.column - 1) + bar.sign, bar.style)
                rows.append(self._below(running, canvas, moved=True))
                running = [*running, bar]
        for bar in sorted(ends, key=lambda b: -b.column):
            rows += self._end(bar, running, code)
            running = [b for b in running if b is not bar]
        return rows

    def _end(self, bar: Mark, running: list[Mark], code: SourceLine) -> list[Row]:
        at = self.indent + max(0, code.cell(bar.end) - 1)
        canvas = Canvas()
        canvas.put(2 * bar.column + 1, "_" * (at - 2 * bar.column - 1) + bar.sign, bar.style)
        whole = self.width + self.indent
        if at + 2 + cells(bar.label) <= whole:
            canvas.put(at + 2, bar.label, bar.style)
            return [self._below(running, canvas, moved=True)]
        rows = [self._below(running, canvas, moved=True)]
        left = label_left(bar.label, at, self.indent, whole)
        for text in wrap(bar.label, whole - left):
            canvas = Canvas()
            canvas.put(left, text, bar.style)
            rows.append(self._below([b for b in running if b is not bar], canvas, moved=True))
        return rows

    def _below(self, running: Sequence[Mark], canvas: Canvas, moved: bool = False) -> Row:
        """A row without line number; ``moved`` tells that the canvas counts from the bars, not from the code."""
        whole = self._rails(running)
        for at, (char, style) in canvas.drawn.items():
            whole.drawn.setdefault(at if moved else at + self.indent, (char, style))
        return [(" " * self.gutter + " | ", "gutter"), *whole.row()]

    def _rails(self, bars: Sequence[Mark]) -> Canvas:
        rails = Canvas()
        for bar in bars:
            rails.put(2 * bar.column, "|", bar.style)
        return rails

    def _listed(self, mark: Mark) -> list[Row]:
        head = f"{mark.line:>{self.gutter}} | "
        rows: list[Row] = []
        for text in wrap(mark.label, max(NARROWEST, self.width - 2)):
            sign = mark.sign if not rows else " "
            rows.append([(head if not rows else " " * self.gutter + " | ", "gutter"), (f"{sign} {text}", mark.style)])
        return rows


# The report's drawing: the line to change by itself, then the other places in order of time, a label below each.

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
