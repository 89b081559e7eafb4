"""One self-contained HTML page, without script and without anything to load: the graph drawn, the source beside it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from html import escape
from importlib import resources

from graphdoc.model import Diagnosis, Fix, Report
from graphdoc.render import markdown, story
from graphdoc.render.page.graph_svg import graph_section
from graphdoc.render.page.source import Places, coloured, element, plots, prose, source_section, timeline, words
from graphdoc.render.snippet import change_rows, drawing, gutter_width
from graphdoc.render.text import flat
from graphdoc.render.underlines import Row

BEGINS = re.compile(r"<!doctype html>\n.{0,600}<title>graphdoc: ", re.DOTALL)

_WIDTH = 140  # cells; the page scrolls sideways where a window is narrower
_PARTS = (
    ("curves", "curves"),
    ("graph", "graph"),
    ("source", "source"),
    ("story", "how it happened"),
    ("calls", "calls"),
)


def render(report: Report, *, width: int, color: bool) -> str:
    """A whole page. Everything that comes from the program is escaped; colours follow the reader's light or dark."""
    style = "\n" + resources.files("graphdoc.render").joinpath("page.css").read_text("utf-8")
    places = Places(report)
    picture, fitted = _picture(report, places) if report.diagnoses else ("", "")
    style += fitted
    body = [_lead(report, d) + picture * (not n) + _rest(report, d, not n) for n, d in enumerate(report.diagnoses)]
    body = body or [element("p", story.verdict(report))]
    if report.diagnoses:
        body.append(timeline(report.picture, places))
    if report.diagnoses and story.not_observed(report):
        body.append(element("p", story.verdict(report)))
    notes = [element("li", note) for note in report.notes if flat(note)]
    if notes:
        body.append(f"<ul class=notes>{''.join(notes)}</ul>")
    if report.diagnoses:
        body.append(_for_an_issue(report))
    first = report.diagnoses[0] if report.diagnoses else None
    title = escape(flat(f"{first.code} {first.title}") if first else "no diagnosis")
    described = escape(story.lead(first) if first else story.verdict(report))
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_policy(style))}">\n'
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>graphdoc: {title}</title>\n"
        f'<meta name=description content="{described}">\n<meta property=og:type content=article>\n'
        f'<meta property=og:title content="graphdoc: {title}">\n<meta property=og:description content="{described}">\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        + "\n".join([_head("".join(body)), "<main>", *body, "</main>", _run(report)])
        + "\n</body>\n</html>\n"
    )


def _policy(style: str) -> str:
    """Nothing is loaded and nothing runs; no style but the page's own."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _head(body: str) -> str:
    links = "".join(f"<a href=#{ident}>{name}</a>" for ident, name in _PARTS if f"<section id={ident} " in body)
    nav = f"<nav aria-label='Parts of the page'>{links}</nav>" if links else ""
    return f"<header><h1>graphdoc</h1>{nav}</header>"


def _run(report: Report) -> str:
    """What has run, below all that was found."""
    run = report.run
    rows = [
        ("command", " ".join(run.command)),
        ("ended with", f"exit status {run.exit_status} after {run.seconds:.1f} s" if run.command else ""),
        ("Python", run.python),
        ("torch", run.torch),
        ("processes", str(run.ranks) if run.ranks > 1 else ""),
        ("exception", ": ".join(report.exception.get(k, "") for k in ("type", "message")) if report.exception else ""),
    ]
    cells = "".join(f"<dt>{name}</dt>{element('dd', value)}" for name, value in rows if value)
    return f"<footer><h2>The run</h2><dl>{cells}</dl></footer>" if cells else ""


def _for_an_issue(report: Report) -> str:
    """The report as Markdown, to be copied."""
    text = escape(markdown.render(report, width=_WIDTH, color=False))
    return f"<details><summary>Text for an issue</summary><pre tabindex=0>{text}</pre></details>"


def _picture(report: Report, places: Places) -> tuple[str, str]:
    """The curves, then the graph and the source beside each other; and the rule by which the drawing fits."""
    (graph, fitted), source = graph_section(report.picture, places), source_section(places)
    beside = f"<div class=beside>{graph}{source}</div>\n" if report.picture.boxes and source else source + graph
    return plots(report.picture.curves) + beside, fitted


def _lead(report: Report, diagnosis: Diagnosis) -> str:
    """What is wrong, what proves it and the first patch: what a reader sees without moving."""
    main = story.main_place(diagnosis)
    fix = "".join(_fix(f, 0, main.file if main else "", gutter_width(diagnosis)) for f in diagnosis.fixes[:1])
    level = story.level(report)
    sure, *measured = story.evidence(diagnosis)
    told = [f"<li><b>{diagnosis.confidence}:</b> {prose(sure)}</li>", *(element("li", fact) for fact in measured)]
    return (
        f"<section>\n<h2><span class={level}>{level}[{escape(diagnosis.code)}]</span> {prose(diagnosis.title)}</h2>\n"
        f"{element('p', story.lead(diagnosis))}\n<ul>{''.join(told)}</ul>{fix}</section>\n"
    )


def _rest(report: Report, diagnosis: Diagnosis, first: bool) -> str:
    """The story in order of time, the patches, and where more is to be had. The first one is a part of the page."""
    gutter = gutter_width(diagnosis)
    main = story.main_place(diagnosis)
    named = " id=story aria-labelledby=story-h" if first else ""
    parts = [f"<section{named}>", f"<h2{' id=story-h' if first else ''}>How it happened</h2>"]
    if main is not None:
        parts.append(_block(drawing(diagnosis, report.sources, _WIDTH, gutter)))
    if flat(diagnosis.explanation):
        parts.append(element("p", diagnosis.explanation))
    others = list(enumerate(diagnosis.fixes))[1:]
    parts += [_fix(fix, number, main.file if main else "", gutter) for number, fix in others]
    more = ", ".join(f"<code>{escape(command)}</code>" for command in story.commands(report, diagnosis))
    parts += [f"<p>more: {more}</p>", "</section>"]
    return "\n".join(parts)


def _fix(fix: Fix, number: int, main_file: str, gutter: int) -> str:
    badge = f"<span class=badge{' data-verified' if fix.verified else ''}>{story.badge(fix)}</span>"
    head = story.head(fix) if number == 0 else f"option {number + 1}"
    parts = [f"<h3>{head}: {prose(fix.title)} {badge}</h3>"]
    if fix.note:
        parts.append(element("p", fix.note))
    changed = change_rows(fix, main_file, _WIDTH, gutter)
    if changed:
        parts.append(_block(changed))
    if story.to_fill_in(fix):
        parts.append(element("p", f"fill in: {story.to_fill_in(fix)}"))
    measured = "; ".join(story.measured(fix.verification))
    if measured:
        parts.append(element("p", f"measured: {measured}"))
    return "\n".join(parts)


def _block(rows: Iterable[Row]) -> str:
    return "<pre tabindex=0>" + "\n".join("".join(_piece(t, s) for t, s in row if t) for row in rows) + "</pre>"


def _piece(text: str, style: str) -> str:
    """A part of a row; a line of source in its own colours, as far as it is Python by itself."""
    if style == "code":
        return f"<span class=code>{coloured(text, words([text]).get(1, []))}</span>"
    return f"<span class={style}>{escape(text)}</span>" if style else escape(text)
