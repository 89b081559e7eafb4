"""Output formats: each is the module of its name in this package, with ``BEGINS`` and ``render``."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import ModuleType

from graphdoc.model import Report

FORMATS = ("github", "gitlab", "html", "json", "markdown", "sarif", "svg", "terminal")
"""The names of all formats, sorted."""
MIN_WIDTH = 80
MAX_WIDTH = 160
DEFAULT_WIDTH = 100
HEAD = 4096
"""Bytes at the beginning of a file that tell whether it is a report."""


def _module(fmt: str) -> ModuleType:
    """The module of a format, and of no other: those of the page take long to import."""
    return importlib.import_module(f"{__name__}.{fmt}")


def render(
    report: Report,
    fmt: str,
    *,
    width: int | None = None,
    color: bool = False,
    links: bool = False,
    told: Report | None = None,
) -> str:
    """The report in one format, ending in a newline, or an empty string where that format has nothing to say.

    ``width`` is in terminal cells and is held between 80 and 160; ``color`` asks for ANSI colours, ``links`` for
    places that a click opens (OSC 8), ``told`` for what is not in that report of the first run alone. All matter to
    ``terminal`` only. Raises ValueError for a format that does not exist.
    """
    if fmt not in FORMATS:
        raise ValueError(f"there is no format {fmt!r}; the formats are {', '.join(FORMATS)}")
    cells = DEFAULT_WIDTH if width is None else max(MIN_WIDTH, min(MAX_WIDTH, width))
    more = {"links": links, "told": _offered(told) if told is not None else None} if fmt == "terminal" else {}
    text: str = _module(fmt).render(_offered(report), width=cells, color=color, **more)
    return text


def _offered(report: Report) -> Report:
    """The report without the patches that have failed when they were tried: what came of them is told."""
    return replace(
        report,
        diagnoses=tuple(d.with_fixes(tuple(replace(f, diff=f.offered) for f in d.fixes)) for d in report.diagnoses),
    )


def is_report(text: str) -> bool:
    """Whether a text begins as one that a format here has written, whichever that is."""
    return any(_module(fmt).BEGINS.match(text[:HEAD]) for fmt in FORMATS)
