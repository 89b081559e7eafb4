"""The page of one cause, read from its file: whoever only looks it up imports no recogniser."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graphdoc.causes import links
from graphdoc.causes.base import Entry, Page
from graphdoc.source.paths import is_name


def file_of(name: str, folders: Iterable[str]) -> Path | None:
    """The file of the cause with this code or slug, in lower case: it is called by the slug and begins with the code.

    None also where the package lies in an archive, whose modules are no files.
    """
    for folder in folders:
        for file in sorted(Path(folder).glob("*/*.py")):
            if file.stem.replace("_", "-") == name or _begins(file, name):
                return file
    return None


def _begins(file: Path, code: str) -> bool:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().lower().startswith(f'"""{code}:')


def read(file: Path) -> Entry | None:
    """What a cause's file says of it in ``PAGE``; None where it defines none."""
    known: dict[str, Any] = {"Page": Page, "links": links}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and is_name(node.targets[0], "PAGE"):
            page = eval(compile(ast.Expression(node.value), str(file), "eval"), known)  # a file of this package
            return Entry(file.stem.replace("_", "-"), page)
    return None
