"""Where the program calls PyTorch's own functions, told by what each file's imports bind, not by a name alone."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import frame_of, text_of, tree


def library_calls(sources: SourceTexts, *names: str) -> list[Frame]:
    """Every call, and every bare decorator, of a function of PyTorch's that has one of these names.

    A name that the file imports from elsewhere (``re.compile``) or binds itself (``def checkpoint``, a method of
    ``self``) is none of PyTorch's. One that the file does not bind at all (``from x import *``) is taken at its word.
    """
    found: list[Frame] = []
    for file in sources:
        root = tree(sources, file)
        if root is None:
            continue
        imported, own = _imported(root), _bound(root)
        for node in _called(root):
            first, _, rest = text_of(node.func if isinstance(node, ast.Call) else node).partition(".")
            if first in imported:
                whole = f"{imported[first]}.{rest}".rstrip(".")
                is_torchs = whole.split(".")[0] == "torch"
            else:
                whole = rest or first
                is_torchs = first not in own and not hasattr(builtins, first)
            if is_torchs and whole.rpartition(".")[2] in names:
                found.append(frame_of(sources, file, node))
    return found


def _called(root: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(root):
        if isinstance(node, ast.Call):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from (d for d in node.decorator_list if not isinstance(d, ast.Call))


def _imported(root: ast.Module) -> dict[str, str]:
    """What each imported name stands for, in full: ``ckpt`` for ``torch.utils.checkpoint``."""
    found: dict[str, str] = {}
    for node in ast.walk(root):
        if isinstance(node, ast.Import):
            found.update({a.asname: a.name for a in node.names if a.asname})
            found.update({first: first for a in node.names if not a.asname and (first := a.name.split(".")[0])})
        elif isinstance(node, ast.ImportFrom):
            found.update({a.asname or a.name: f"{'.' * node.level}{node.module or ''}.{a.name}" for a in node.names})
    return found


def _bound(root: ast.Module) -> set[str]:
    """The names that the file itself binds: functions, classes, arguments, variables."""
    found: set[str] = set()
    for node in ast.walk(root):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found
