"""The report as a person reads it: one sentence, the line to change, the story in order of time, the proof, the fix."""

from __future__ import annotations

import re

from graphdoc.model import Diagnosis, Report
from graphdoc.render import story
from graphdoc.render.snippet import change_rows, drawing, gutter_width
from graphdoc.render.text import statement, wrap
from graphdoc.render.underlines import Row, paint

BEGINS = re.compile(r"(error|warning)\[GD\d{3}\]: |graphdoc: ")

_PROSE = 104  # cells; longer lines of prose are hard to read, however wide the terminal is
_HANG = len("note: ")  # all later lines of a paragraph stand below the first word of a note

_SCREEN = 30  # rows that a report of one fault should not exceed
_DETAIL = (
    (3, 5, 2, 30),
    (3, 4, 2, 30),
    (3, 4, 1, 30),
    (3, 3, 1, 30),
    (3, 3, 1, 8),
    (1, 3, 1, 8),
    (1, 2, 1, 6),
    (1, 2, 1, 4),
)
"""Places to change, other places, sentences of evidence and rows of the patch; the most first."""


Block = list[Row]
"""Rows that belong together: what a report says of one thing."""


def render(report: Report, *, width: int, color: bool, links: bool = False, told: Report | None = None) -> str:
    """The text for a terminal. Without a diagnosis only what was not observed and the notes are left, or nothing.

    Of one that follows a report of the first run alone (``told``), which the reader has before him, only what it adds,
    below a line that says what that comes to.
    """
    blocks = _added(report, told, width) if told is not None else _blocks(report, width)
    return paint([row for block in blocks for row in block], color=color, links=links)


def _blocks(report: Report, width: int) -> list[Block]:
    below: list[Block] = []
    for diagnosis in report.diagnoses[1:]:
        words = f"{diagnosis.title} [{diagnosis.code}, {diagnosis.confidence}]: `graphdoc explain {diagnosis.code}`"
        below.append(_paragraph("also: ", "note", words, "", width))
    missing = story.not_observed(report)
    if missing:
        below.append([[("graphdoc: ", "warning"), (missing, "")]])  # one line, to be searched for
    below += [_paragraph("note: ", "note", note, "", width) for note in report.notes]
    if not report.diagnoses:
        return below
    if below:
        below.insert(0, [[]])
    return [*_fitting(report, report.diagnoses[0], width, _SCREEN - sum(map(len, below))), *below]


def _added(report: Report, told: Report, width: int) -> list[Block]:
    """The blocks of a report that were not told before; all of them where the cause is another one."""
    before = {_said(block) for block in _blocks(told, width)}
    new = [block for block in _blocks(report, width) if (said := _said(block)) and said not in before]
    if not told.diagnoses:
        return new
    words = story.added(report, told)
    if not report.diagnoses or report.diagnoses[0].code != told.diagnoses[0].code:
        new = _blocks(report, width)
    if not words and new:
        return new  # notes, which say themselves what has come of it
    return [[[]], _paragraph("looked closer: ", "note", words or "nothing new", "", width), *new]


def _said(block: Block) -> tuple[str, ...]:
    """The words of a block, however they are laid out."""
    return tuple(word for row in block for text, _ in row for word in text.split())


def _fitting(report: Report, diagnosis: Diagnosis, width: int, most: int) -> list[Block]:
    """One diagnosis from its ``error[CODE]`` line to the commands that say more.

    Where that would be more than ``most`` rows, what matters least is left out: the second sentence of evidence, places
    of the story, lines of a long patch.
    """
    blocks: list[Block] = []
    for detail in _DETAIL:
        blocks = _told(report, diagnosis, width, *detail)
        if sum(map(len, blocks)) <= most:
            break
    return blocks


def _told(
    report: Report, diagnosis: Diagnosis, width: int, change: int, places: int, sentences: int, patch_rows: int
) -> list[Block]:
    level = story.level(report)
    gutter = gutter_width(diagnosis)
    margin = " " * gutter + " = "
    words = (f"{diagnosis.confidence}: ", "note: ")
    head, command = story.next_step(report, diagnosis)
    return [
        _paragraph(f"{level}[{diagnosis.code}]: ", level, diagnosis.title, "", width, style="strong"),
        _paragraph("", "", statement(story.lead(diagnosis)), "", width),
        drawing(diagnosis, report.sources, width, gutter, places, change),
        *(
            _paragraph(word, "note", sentence, margin, width)
            for word, sentence in zip(words, story.proof(diagnosis)[:sentences], strict=False)
        ),
        _best_fix(report, diagnosis, width, gutter, patch_rows) if diagnosis.fixes else [],
        _paragraph("more: ", "note", story.more(report, diagnosis), margin, width),
        _paragraph(head, "help", command, "", width, style="strong"),
    ]


def _best_fix(report: Report, diagnosis: Diagnosis, width: int, gutter: int, most: int) -> list[Row]:
    fix = diagnosis.fixes[0]
    margin = " " * gutter + " = "
    rows = _paragraph(f"{story.head(fix)}: ", "help", f"{fix.title} [{story.badge(fix)}]", "", width)
    if fix.verified:
        text, _ = rows[-1].pop()
        title, bracket, told = text.rpartition("[")
        rows[-1] += [(title, ""), (bracket + told, "verified")]
    main = story.main_place(diagnosis)
    changed = change_rows(fix, main.file if main else "", width, gutter, most, report.run.fixed_by)
    if changed:
        rows += [_bar(gutter), *changed, _bar(gutter)]
    rows += _paragraph("effect: ", "note", story.effect(fix), margin, width)
    rows += _paragraph("fill in: ", "help", story.to_fill_in(fix), margin, width)
    rows += _paragraph("measured: ", "note", "; ".join(story.measured(fix.verification)), margin, width)
    return rows


def _paragraph(head: str, head_style: str, text: str, margin: str, width: int, style: str = "") -> list[Row]:
    """``head`` and the text wrapped beside it; nothing where there is no text."""
    room = min(width, _PROSE) - len(margin)
    hang = min(len(head), _HANG) if margin else len(head)
    first, *rest = wrap(text, room - hang, first=room - len(head))
    if not first:
        return []
    rows: list[Row] = [[(margin, "gutter"), (head, head_style), (first, style)]]
    return rows + [[(" " * (len(margin) + hang), ""), (line, style)] for line in rest]


def _bar(gutter: int) -> Row:
    return [(" " * gutter + " |", "gutter")]
