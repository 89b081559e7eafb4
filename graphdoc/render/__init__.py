"""Output formats: every module of this package that defines ``NAME``, ``BEGINS`` and ``render`` is one format."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache
from types import ModuleType

from graphdoc.model import Report

FORMATS: tuple[str, ...]
"""The names of all formats, sorted; found on first use. A new format is a new file here and no other change."""

MIN_WIDTH = 80
MAX_WIDTH = 160
DEFAULT_WIDTH = 100
HEAD = 4096
"""Bytes at the beginning of a file that tell whether it is a report."""


@cache
def _modules() -> dict[str, ModuleType]:
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        if hasattr(module, "NAME"):
            found[module.NAME] = module
    return dict(sorted(found.items()))


def _module(fmt: str) -> ModuleType | None:
    """The module of a format, which is called by its name, alone: others, such as the page's, take long to import."""
    if fmt not in {info.name for info in pkgutil.iter_modules(__path__)}:
        return None
    module = importlib.import_module(f"{__name__}.{fmt}")
    return module if getattr(module, "NAME", None) == fmt else None


def is_format(name: str) -> bool:
    """Whether there is a format of this name."""
    return _module(name) is not None


def __getattr__(name: str) -> object:
    if name == "FORMATS":
        return tuple(_modules())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    module = _module(fmt)
    if module is None:
        raise ValueError(f"there is no format {fmt!r}; the formats are {', '.join(_modules())}")
    cells = DEFAULT_WIDTH if width is None else max(MIN_WIDTH, min(MAX_WIDTH, width))
    more = {"links": links, "told": _offered(told) if told is not None else None} if fmt == "terminal" else {}
    text: str = module.render(_offered(report), width=cells, color=color, **more)
    return text


def _offered(report: Report) -> Report:
    """The report without the patches that have failed when they were tried: what came of them is told."""
    return replace(
        report,
        diagnoses=tuple(d.with_fixes(tuple(replace(f, diff=f.offered) for f in d.fixes)) for d in report.diagnoses),
    )


def is_report(text: str) -> bool:
    """Whether a text begins as one that a format here has written, whichever that is."""
    return any(module.BEGINS.match(text[:HEAD]) for module in _modules().values())
