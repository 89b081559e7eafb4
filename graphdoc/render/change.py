"""A patch as a person reads it: only the lines that change, with their numbers in the file as it is."""

from __future__ import annotations

from graphdoc.line_changes import Change, parse
from graphdoc.model import Fix
from graphdoc.render.text import flat
from graphdoc.render.underlines import Row, SourceLine

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
