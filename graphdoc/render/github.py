"""GitHub Actions workflow commands: one annotation for each diagnosis."""

from __future__ import annotations

import re

from graphdoc.model import Diagnosis, Report, Span
from graphdoc.render import story
from graphdoc.render.text import flat, neutralise

BEGINS = re.compile(r"::(error|warning|notice) title=(GD\d{3} |graphdoc::)")

_MOST = 10  # GitHub drops what a step says beyond ten errors, without a word


def render(report: Report, *, width: int, color: bool) -> str:
    """``::error`` or ``::warning`` lines, the best diagnosis first, then what was not observed; or nothing."""
    lines = [_command(report, d) for d in report.diagnoses[:_MOST]]
    if story.not_observed(report):
        level = "notice" if report.observed.complete else "warning"
        lines.append(f"::{level} title=graphdoc::{_data(story.not_observed(report))}\n")
    return "".join(lines)


def _command(report: Report, diagnosis: Diagnosis) -> str:
    properties: dict[str, str | int] = {"title": f"{diagnosis.code} {flat(diagnosis.title)}"}
    place = story.main_place(diagnosis)
    if place is not None:
        properties |= {
            "file": neutralise(story.repository_path(place.file)),
            "line": place.line,
            "endLine": max(place.line, place.end_line),
            "col": place.column,
        }
        if place.end_line > place.line:
            del properties["col"]  # GitHub refuses columns of a span over several lines
        else:
            properties["endColumn"] = max(place.column, place.end_column)
    named = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{story.level(report)} {named}::{_data(_message(report, diagnosis))}\n"


def _message(report: Report, diagnosis: Diagnosis) -> str:
    sure, *measured = story.proof(diagnosis)
    lines = [story.lead(diagnosis)]
    lines += list(dict.fromkeys(_line(span) for span in story.to_change(diagnosis)))  # columns are not said
    lines += [f"{n}. {_line(s)}" if n else _line(s) for n, s in story.numbered(story.in_time(diagnosis))]
    lines += [f"{diagnosis.confidence}: {sure}", *(f"note: {fact}" for fact in measured)]
    if diagnosis.fixes:
        best = diagnosis.fixes[0]
        note = f": {flat(best.note)}" if best.note else ""
        lines.append(f"{story.head(best)}: {flat(best.title)} [{story.badge(best)}]{note}")
        lines += [f"fill in: {left}"] if (left := story.to_fill_in(best)) else []
    lines.append("more: " + ", ".join(story.commands(report, diagnosis)))
    return "\n".join(lines)


def _line(span: Span) -> str:
    place = f"{neutralise(story.repository_path(span.file))}:{span.line}"
    return f"{place}: {story.label(span)}" if story.label(span) else place


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
