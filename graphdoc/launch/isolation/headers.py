"""Whether a program imports torch before it does anything that could matter to that import, read off its source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoc.sourcetext import read_source

if TYPE_CHECKING:
    from graphdoc.launch import Request

_FIRST = ("numpy",)
"""Packages that torch imports by itself, so that they may as well come first."""


def imported_first(request: Request) -> list[str] | None:
    """What the program imports before torch, of other packages; None where it does anything else before, or may.

    Modules of the standard library count as nothing: importing them changes nothing that torch's import depends on.
    """
    texts = {Path(path).resolve(): text for path, text in (request.patches or {}).items()}
    before: list[str] = []
    for file in _files(request):
        text = _text(file, texts)
        found = _header(text, before) if text is not None else None
        if found is None:
            return None
        if found:
            return before
    return None


def _files(request: Request) -> list[Path]:
    """The files that Python executes for this program, in their order: of a module its packages first."""
    cwd = Path(request.cwd or ".").absolute()
    if request.kind == "script":
        return [cwd / request.command[0]]
    if request.kind != "module" or sys.flags.safe_path:
        return []
    *packages, name = request.command[0].split(".")
    files = []
    folder = cwd
    for package in packages:
        folder = folder / package
        files.append(folder / "__init__.py")
    return [*files, folder / f"{name}.py"]


def _text(file: Path, texts: Mapping[Path, str]) -> str | None:
    try:
        resolved = file.resolve()
        if resolved in texts:
            return texts[resolved]
        data = read_source(str(resolved))
        return None if data is None else data.decode("utf-8")
    except (OSError, ValueError, RuntimeError):
        return None


def _header(text: str, before: list[str]) -> bool | None:
    """True where torch is imported first (what comes before is added to ``before``), False where nothing is done."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        else:
            return None
        for name in names:
            top = name.partition(".")[0]
            if top == "torch":
                return True
            if top in _FIRST:
                before.append(name)
            elif top not in sys.stdlib_module_names:
                return None
    return False
