"""The page of one cause, read from its file: whoever only looks it up imports no recogniser."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graphdoc.causes import links
from graphdoc.causes.base import Entry, Page


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
    """What a cause's file says of it in ``PAGE`` and ``CAUSE``; None where it defines none."""
    told = {field.name for field in dataclasses.fields(Entry)}
    known: dict[str, Any] = {"Page": Page, "links": links}

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), str(file), "eval"), known)  # a file of this package

    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if name == "CAUSE" and isinstance(node.value, ast.Call):
            return Entry(**{k.arg: value(k.value) for k in node.value.keywords if k.arg in told})
        if name == "PAGE" or isinstance(node.value, ast.Constant):
            known[name] = value(node.value)
    return None
