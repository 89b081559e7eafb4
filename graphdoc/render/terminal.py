"""The report as a person reads it: one line, the story in the source, the cause, the fix."""

from __future__ import annotations

from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.render import story
from graphdoc.render.change import change_rows
from graphdoc.render.marks import Row
from graphdoc.render.paint import paint
from graphdoc.render.snippet import gutter_width, snippet
from graphdoc.render.text import wrap

NAME = "terminal"

_PROSE = 104  # cells; longer lines of prose are hard to read, however wide the terminal is
_HANG = len("note: ")  # all later lines of a paragraph stand below the first word of a note


def render(report: Report, *, width: int, color: bool) -> str:
    """The text for a terminal. Without a diagnosis only what was not observed and the notes are left, or nothing."""
    rows: list[Row] = []
    for diagnosis in report.diagnoses:
        if rows:
            rows.append([])
        rows += diagnosis_rows(report, diagnosis, width)
    missing = story.not_observed(report)
    if rows and (report.notes or missing):
        rows.append([])
    if missing:
        rows.append([("graphdoc: ", "warning"), (missing, "")])  # one line, to be searched for
    for note in report.notes:
        rows += _paragraph("note: ", "note", note, "", width)
    return paint(rows, color=color)


def diagnosis_rows(report: Report, diagnosis: Diagnosis, width: int) -> list[Row]:
    """One diagnosis from its ``error[CODE]`` line to the commands that say more."""
    level = story.level(report)
    rows = _paragraph(f"{level}[{diagnosis.code}]: ", level, diagnosis.title, "", width, style="strong")
    gutter = gutter_width(diagnosis)
    main = story.main_place(diagnosis)
    if main is not None:
        rows += snippet(diagnosis.spans, main, report.sources, width, gutter)
        rows.append(_bar(gutter))
    margin = " " * gutter + " = "
    for fact in diagnosis.facts:
        rows += _paragraph("note: ", "note", fact, margin, width)
    rows += _paragraph(f"{story.cause_words(diagnosis)}: ", "note", diagnosis.explanation, margin, width)
    if diagnosis.fixes:
        rows += _best_fix(diagnosis, diagnosis.fixes[0], width, gutter)
    for number, fix in enumerate(diagnosis.fixes[1:], start=2):
        words = f"{fix.title} [{story.badge(fix)}]" + (f": {fix.note}" if fix.note else "")
        rows += _paragraph(f"option {number}: ", "help", words, margin, width)
    more = ", ".join(f"`{command}`" for command in story.commands(report, diagnosis))
    rows += _paragraph("more: ", "note", more, margin, width)
    return rows


def _best_fix(diagnosis: Diagnosis, fix: Fix, width: int, gutter: int) -> list[Row]:
    margin = " " * gutter + " = "
    rows = _paragraph("help: ", "help", f"{fix.title} [{story.badge(fix)}]", margin, width)
    text, _ = rows[-1].pop()
    title, bracket, badge = text.rpartition("[")
    rows[-1] += [(title, ""), (bracket + badge, "verified" if fix.verified else "")]
    main = story.main_place(diagnosis)
    changed = change_rows(fix.diff, main.file if main else "", width, gutter)
    if changed:
        rows += [_bar(gutter), *changed, _bar(gutter)]
    rows += _paragraph("effect: ", "note", fix.note, margin, width)
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
