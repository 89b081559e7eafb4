"""Markdown for a job's summary page or an issue."""

from __future__ import annotations

import re

from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.render import story
from graphdoc.render.snippet import drawing, gutter_width
from graphdoc.render.text import flat, neutralise, split_lines
from graphdoc.render.underlines import plain

BEGINS = re.compile(r"### (error|warning) GD\d{3}: ")

_CODE = re.compile(r"`[^`]+`")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#!|~$@&])")


def render(report: Report, *, width: int, color: bool) -> str:
    """GitHub-flavoured Markdown, ended by a newline; without a diagnosis what was not observed and the notes."""
    parts = [_diagnosis(report, d, width) for d in report.diagnoses]
    if story.not_observed(report):
        parts.append(prose(story.verdict(report)))
    if any(flat(note) for note in report.notes):
        parts.append("\n".join(f"- {prose(note)}" for note in report.notes if flat(note)))
    return "\n\n".join(parts) + "\n" if parts else ""


def _diagnosis(report: Report, diagnosis: Diagnosis, width: int) -> str:
    parts = [f"### {story.level(report)} {diagnosis.code}: {prose(diagnosis.title)}"]
    rows = drawing(diagnosis, report.sources, width, gutter_width(diagnosis))
    if rows:
        parts.append(fence("\n".join(plain(row) for row in rows), "text"))
    sure, *measured = story.evidence(diagnosis)
    parts.append(
        "\n".join([f"- **{diagnosis.confidence}:** {prose(sure)}", *(f"- {prose(fact)}" for fact in measured)])
    )
    if diagnosis.explanation:
        parts.append(prose(diagnosis.explanation))
    if diagnosis.fixes:
        parts += _best_fix(diagnosis.fixes[0])
    if len(diagnosis.fixes) > 1:
        parts += ["<details><summary>Other fixes</summary>", *(_option(f) for f in diagnosis.fixes[1:]), "</details>"]
    parts.append("More: " + ", ".join(f"`{command}`" for command in story.commands(report, diagnosis)))
    return "\n\n".join(parts)


def _best_fix(fix: Fix) -> list[str]:
    parts = [f"**{'Tried' if story.head(fix) == 'tried' else 'Fix'}:** {_named(fix)}"]
    if fix.diff:
        parts.append(fence(fix.diff, "diff"))
    if story.to_fill_in(fix):
        parts.append(f"Fill in: {prose(story.to_fill_in(fix))}")
    measured = "; ".join(story.measured(fix.verification))
    if measured:
        parts.append(f"Measured: {prose(measured)}")
    return parts


def _option(fix: Fix) -> str:
    left = f". Fill in: {prose(story.to_fill_in(fix))}" if story.to_fill_in(fix) else ""
    return f"- {_named(fix)}{left}" + (f"\n\n{fence(fix.diff, 'diff')}" if fix.diff else "")


def _named(fix: Fix) -> str:
    return f"{prose(fix.title)} ({story.badge(fix)})" + (f": {prose(fix.note)}" if fix.note else "")


def prose(text: str) -> str:
    """One line in which only code between backticks is markup; everything else is shown as it is."""
    line = flat(text)
    parts, end = [], 0
    for match in _CODE.finditer(line):
        parts += [_SPECIAL.sub(r"\\\1", line[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\1", line[end:])])


def fence(text: str, language: str) -> str:
    """A code block that nothing inside the text can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    body = "\n".join(neutralise(line.replace("\t", "    ")) for line in split_lines(text.rstrip("\r\n")))
    return f"{ticks}{language}\n{body}\n{ticks}"
