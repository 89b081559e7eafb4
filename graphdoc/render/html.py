"""One self-contained HTML page, without script and without anything to load."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib import resources

from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.render import story
from graphdoc.render.change import change_rows
from graphdoc.render.drawing import drawing
from graphdoc.render.marks import Row
from graphdoc.render.snippet import gutter_width
from graphdoc.render.text import flat

NAME = "html"

_WIDTH = 140  # cells; the page scrolls sideways where a window is narrower
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(report: Report, *, width: int, color: bool) -> str:
    """A whole page. Everything that comes from the program is escaped; colours follow the reader's light or dark."""
    style = resources.files("graphdoc.render").joinpath("page.css").read_text("utf-8")
    body = [_diagnosis(report, d) for d in report.diagnoses] or [_element("p", story.verdict(report))]
    if report.diagnoses and story.not_observed(report):
        body.append(_element("p", story.verdict(report)))
    notes = [_element("li", note) for note in report.notes if flat(note)]
    if notes:
        body.append(f"<ul class=notes>{''.join(notes)}</ul>")
    title = flat(report.diagnoses[0].title) if report.diagnoses else "no diagnosis"
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>graphdoc: {escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join([_run(report), *body])
        + "\n</body>\n</html>\n"
    )


def _run(report: Report) -> str:
    run = report.run
    rows = [
        ("command", " ".join(run.command)),
        ("ended with", f"exit status {run.exit_status} after {run.seconds:.1f} s" if run.command else ""),
        ("Python", run.python),
        ("torch", run.torch),
        ("processes", str(run.ranks) if run.ranks > 1 else ""),
        ("exception", ": ".join(report.exception.get(k, "") for k in ("type", "message")) if report.exception else ""),
    ]
    cells = "".join(f"<dt>{name}</dt>{_element('dd', value)}" for name, value in rows if value)
    return f"<header><h1>graphdoc</h1><dl>{cells}</dl></header>"


def _diagnosis(report: Report, diagnosis: Diagnosis) -> str:
    level = story.level(report)
    gutter = gutter_width(diagnosis)
    main = story.main_place(diagnosis)
    parts = [
        "<section>",
        f"<h2><span class={level}>{level}[{escape(diagnosis.code)}]</span> {_prose(diagnosis.title)}</h2>",
    ]
    if main is not None:
        parts.append(_block(drawing(diagnosis, report.sources, _WIDTH, gutter)))
    sure, *measured = story.evidence(diagnosis)
    told = [f"<li><b>{diagnosis.confidence}:</b> {_prose(sure)}</li>", *(_element("li", fact) for fact in measured)]
    parts.append(f"<ul>{''.join(told)}</ul>")
    if flat(diagnosis.explanation):
        parts.append(_element("p", diagnosis.explanation))
    parts += [_fix(fix, number, main.file if main else "", gutter) for number, fix in enumerate(diagnosis.fixes)]
    more = ", ".join(f"<code>{escape(command)}</code>" for command in story.commands(report, diagnosis))
    parts += [f"<p>more: {more}</p>", "</section>"]
    return "\n".join(parts)


def _fix(fix: Fix, number: int, main_file: str, gutter: int) -> str:
    badge = f"<span class=badge{' data-verified' if fix.verified else ''}>{story.badge(fix)}</span>"
    parts = [f"<h3>{'help' if number == 0 else f'option {number + 1}'}: {_prose(fix.title)} {badge}</h3>"]
    if fix.note:
        parts.append(_element("p", fix.note))
    changed = change_rows(fix.diff, main_file, _WIDTH, gutter)
    if changed:
        parts.append(_block(changed))
    measured = "; ".join(story.measured(fix.verification))
    if measured:
        parts.append(_element("p", f"measured: {measured}"))
    return "\n".join(parts)


def _block(rows: Iterable[Row]) -> str:
    lines = ["".join(f"<span class={s}>{escape(t)}</span>" if s else escape(t) for t, s in row if t) for row in rows]
    return "<pre>" + "\n".join(lines) + "</pre>"


def _element(tag: str, text: str) -> str:
    return f"<{tag}>{_prose(text)}</{tag}>"


def _prose(text: str) -> str:
    """Escaped text in which what stands between backticks is code."""
    parts = escape(flat(text)).split("`")
    if len(parts) % 2 == 0:  # an odd backtick stays what it is
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
