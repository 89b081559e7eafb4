"""A statement in which some names stand for constants: each tensor read of them is detached."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.source.edits import write
from graphdoc.source.module import Source
from graphdoc.source.paths import key
from graphdoc.source.places import Edit

# What is read off a tensor and carries no graph.
_PLAIN = frozenset({"shape", "size", "dtype", "device", "ndim", "dim", "numel", "item", "detach", "data", "tolist"})


def detach_reads(source: Source, statement: ast.stmt, names: set[str]) -> list[Edit]:
    """Put ``.detach()`` behind each of the names, with the attributes and items read off it, in a statement's value.

    ``names`` are dotted paths: of ``{"out"}``, ``score(out["image"])`` becomes ``score(out["image"].detach())``.

    Raises:
        CannotFix: the statement has no value, or calls one of the names or takes it apart.
    """
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        raise CannotFix("the statement that is to run again has no value")
    if _rooted(value, names) and any(isinstance(t, ast.Tuple | ast.List) for t in getattr(statement, "targets", ())):
        raise CannotFix(f"{ast.unparse(value)} is taken apart, it is no tensor")
    return [write(source, n, "{tensor}.detach()", tensor=n) for n in _tensors(value, names)]


def _tensors(node: ast.AST, names: set[str], called: bool = False) -> list[ast.expr]:
    """The outermost expressions that are one of the names, or something read off it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and _rooted(node, names):
        if called and (not isinstance(node, ast.Attribute) or key(node) in names):
            raise CannotFix(f"{ast.unparse(node)} is called, it is no tensor")
        if isinstance(node, ast.Attribute) and node.attr in _PLAIN and key(node) not in names:
            return []
        return [node.value if called and isinstance(node, ast.Attribute) else node]
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        found += _tensors(child, names, isinstance(node, ast.Call) and child is node.func)
    return found


def _rooted(node: ast.expr, names: set[str]) -> bool:
    """Whether the expression is one of the names, or an attribute or item of it."""
    while not (isinstance(node, ast.Name | ast.Attribute) and key(node) in names):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value
    return True
