"""Detach where state is assigned: in the assignment itself, or in a statement behind it.

Args:
    place: an expression inside the assignment, or the assignment.
    targets: list of ``[path, structure]`` (or paths alone, for tensors) of the assigned values to detach.
"""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.structures import convert_expression, rebinding
from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.module import Source
from graphdoc.source.paths import parse_expression, same, targets_of
from graphdoc.source.places import Edit

KIND = "detach_assigned"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, anchor = statement(sources, required(args, "place"))
    edits: list[Edit] = []
    behind: list[str] = []
    for entry in required(args, "targets"):
        path, structure = (entry, "tensor") if isinstance(entry, str) else (entry[0], entry[1])
        wanted = parse_expression(path)
        if wanted is None or not any(same(t, wanted) for t in targets_of(anchor)):
            raise CannotFix(f"{path} is not assigned at {source.file}:{anchor.lineno}")
        value = _value_of(anchor, wanted)
        if value is not None:
            edits += convert_expression(source, value, structure)
        else:
            texts, needed = rebinding(source, anchor, path, structure)
            behind += texts
            edits += needed
    return [*edits, *(_behind(source, anchor, behind) if behind else [])]


def _value_of(anchor: ast.stmt, wanted: ast.expr) -> ast.expr | None:
    """The expression that is assigned to this target and to no other, if there is one."""
    for node in ast.walk(anchor):
        if isinstance(node, ast.NamedExpr) and same(node.target, wanted):
            return node.value
    if isinstance(anchor, ast.AnnAssign):
        return anchor.value
    if not isinstance(anchor, ast.Assign) or len(anchor.targets) != 1:
        return None
    return _matched(anchor.targets[0], anchor.value, wanted)


def _matched(target: ast.expr, value: Any, wanted: ast.expr) -> ast.expr | None:
    if same(target, wanted):
        return value  # type: ignore[no-any-return]
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        if len(target.elts) != len(value.elts) or any(isinstance(e, ast.Starred) for e in target.elts + value.elts):
            return None
        for inner, its_value in zip(target.elts, value.elts, strict=True):
            found = _matched(inner, its_value, wanted)
            if found is not None:
                return found
    return None


def _behind(source: Source, anchor: ast.stmt, texts: list[str]) -> list[Edit]:
    if isinstance(anchor, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        return insert_before(source, anchor.body[0], texts)
    return insert_after(source, anchor, texts)
