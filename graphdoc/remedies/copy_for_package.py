"""A package's function that writes into a tensor which it was only shown: it is handed a copy."""

from __future__ import annotations

import ast

from graphdoc.evidence import Package, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import call_at, frame_of
from graphdoc.program.installed import deed_of
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import place, where
from graphdoc.program.writers import By
from graphdoc.source.paths import last_word


def copy_for_package(sources: SourceTexts, packages: list[Package], found: Overwrite) -> list[Remedy]:
    """A clone of the one argument that leads back to the overwritten tensor by its name.

    That the argument shares the tensor's memory is seen by the write itself. Not where the function's name says, as
    PyTorch's own do, that it writes (``clip_``).
    """
    writers, name = found.writers, found.stale.tensor.name
    frames = {place_of.line: place_of for w in writers if (place_of := w.frame) is not None}
    if not name or len(frames) != 1 or any(w.by is not By.LIBRARY for w in writers):
        return []
    if any(deed_of(packages, w.stack) is None for w in writers):
        return []
    frame = next(iter(frames.values()))
    call = call_at(sources, frame)
    callee = last_word(call.func) if call is not None else ""
    if call is None or not callee or callee.endswith("_"):
        return []
    shown = [a for a in (*call.args, *(k.value for k in call.keywords)) if _leads_to(a, name)]
    if len(shown) != 1:
        return []
    return [
        Remedy(
            "clone_expression",
            f"hand `{callee}` a copy of `{name}`, at {where(frame)}",
            "unsafe",
            f"It then writes into the copy: `{name}` keeps its values, which the write has changed.",
            {"place": place(frame_of(sources, frame.file, shown[0], frame.function))},
        )
    ]


def _leads_to(node: ast.expr, name: str) -> bool:
    """Whether an expression is the named tensor, or methods, attributes, parts of it: ``noise.detach()[0]``."""
    while ast.unparse(node) != name:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value
    return True
