"""The report as a person reads it: one sentence, the line to change, the story in order of time, the proof, the fix."""

from __future__ import annotations

import re

from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.render import story
from graphdoc.render.change import change_rows
from graphdoc.render.snippet import drawing, gutter_width
from graphdoc.render.text import statement, wrap
from graphdoc.render.underlines import Row, paint

NAME = "terminal"
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


def render(report: Report, *, width: int, color: bool, links: bool = False) -> str:
    """The text for a terminal. Without a diagnosis only what was not observed and the notes are left, or nothing."""
    below: list[Row] = []
    for diagnosis in report.diagnoses[1:]:
        words = f"{diagnosis.title} [{diagnosis.code}, {diagnosis.confidence}]: `graphdoc explain {diagnosis.code}`"
        below += _paragraph("also: ", "note", words, "", width)
    missing = story.not_observed(report)
    if missing:
        below.append([("graphdoc: ", "warning"), (missing, "")])  # one line, to be searched for
    for note in report.notes:
        below += _paragraph("note: ", "note", note, "", width)
    if not report.diagnoses:
        return paint(below, color=color)
    if below:
        below.insert(0, [])
    rows = diagnosis_rows(report, report.diagnoses[0], width, _SCREEN - len(below))
    return paint(rows + below, color=color, links=links)


def diagnosis_rows(report: Report, diagnosis: Diagnosis, width: int, most: int = _SCREEN) -> list[Row]:
    """One diagnosis from its ``error[CODE]`` line to the commands that say more.

    Where that would be more than ``most`` rows, what matters least is left out: the second sentence of evidence, places
    of the story, lines of a long patch.
    """
    rows: list[Row] = []
    for detail in _DETAIL:
        rows = _rows(report, diagnosis, width, *detail)
        if len(rows) <= most:
            break
    return rows


def _rows(
    report: Report, diagnosis: Diagnosis, width: int, change: int, places: int, sentences: int, patch_rows: int
) -> list[Row]:
    level = story.level(report)
    rows = _paragraph(f"{level}[{diagnosis.code}]: ", level, diagnosis.title, "", width, style="strong")
    rows += _paragraph("", "", statement(story.lead(diagnosis)), "", width)
    gutter = gutter_width(diagnosis)
    rows += drawing(diagnosis, report.sources, width, gutter, places, change)
    margin = " " * gutter + " = "
    words = (f"{diagnosis.confidence}: ", "note: ")
    for word, sentence in zip(words, story.proof(diagnosis)[:sentences], strict=False):
        rows += _paragraph(word, "note", sentence, margin, width)
    if diagnosis.fixes:
        rows += _best_fix(diagnosis, diagnosis.fixes[0], width, gutter, patch_rows)
    rows += _paragraph("more: ", "note", story.more(report, diagnosis), margin, width)
    head, command = story.next_step(report, diagnosis)
    return rows + _paragraph(head, "help", command, "", width, style="strong")


def _best_fix(diagnosis: Diagnosis, fix: Fix, width: int, gutter: int, most: int) -> list[Row]:
    margin = " " * gutter + " = "
    rows = _paragraph(f"{story.head(fix)}: ", "help", f"{fix.title} [{story.badge(fix)}]", "", width)
    if fix.verified:
        text, _ = rows[-1].pop()
        title, bracket, told = text.rpartition("[")
        rows[-1] += [(title, ""), (bracket + told, "verified")]
    main = story.main_place(diagnosis)
    changed = change_rows(fix, main.file if main else "", width, gutter, most)
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
