"""The catalogue: every module of a group's folder that has a ``PAGE`` and ``recognise`` is one cause."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from functools import cache
from pathlib import Path

from graphdoc.causes import links
from graphdoc.causes.base import Cause, Entry, Page


@cache
def all_causes() -> tuple[Cause, ...]:
    """Every cause, ordered by code. A new cause is a new file here and no other change."""
    found = []
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        module = importlib.import_module(info.name)
        if hasattr(module, "PAGE"):
            slug = info.name.rpartition(".")[2].replace("_", "-")
            found.append(Cause(slug, module.PAGE, module.recognise))
    return tuple(sorted(found, key=lambda c: c.code))


def find(name: str) -> Cause | None:
    """The cause with this code or slug (case does not matter), or None."""
    wanted = name.strip().lower()
    return next((c for c in all_causes() if wanted in (c.code.lower(), c.slug)), None)


# The page of one cause, read from its file: whoever only looks it up imports no recogniser, which would take five times
# as long as all else that ``graphdoc explain`` does.


def entry(name: str) -> Entry | None:
    """What the catalogue tells of the cause with this code or slug, or None; only this one's file is read.

    A cause's file is called by its slug and begins with its code. Where the package lies in an archive, whose modules
    are no files, all causes are asked.
    """
    wanted = name.strip().lower()
    for file in (file for folder in __path__ for file in sorted(Path(folder).glob("*/*.py"))):
        text = file.read_text(encoding="utf-8")
        if file.stem.replace("_", "-") == wanted or text.lower().startswith(f'"""{wanted}:'):
            return _read(file, text)
    return find(name)


def _read(file: Path, text: str) -> Entry | None:
    """What a cause's file says of it in ``PAGE``; None where it defines none."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGE":
            code = compile(ast.Expression(node.value), str(file), "eval")
            page = eval(code, {"Page": Page, "links": links})  # a file of this package
            return Entry(file.stem.replace("_", "-"), page)
    return None
