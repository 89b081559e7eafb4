"""Containers that a class writes into a container of its own: where each is written, and how deep it lies there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.program import bindings

_Levels = list[tuple[ast.expr, int]]
_Display = ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.GeneratorExp | ast.DictComp
_ADDING = {"append": 0, "appendleft": 0, "insert": 1}
"""Methods of a container that take one more thing, and the position of it among the arguments."""
_ADDING_MANY = {"extend": 0, "update": 0}


def written_into(owner: ast.ClassDef, attribute: str, value: ast.expr, depth: int) -> _Levels | None:
    """The expressions in ``owner`` that make the containers within the container ``attribute`` (``self.blocks``).

    Args:
        value: the expression that makes the outermost one.
        depth: how many levels of containers there are; 1 where it holds layers alone.

    Returns:
        each with its level, from 1; None where what is put in is not all written as something that can be named.
    """
    if depth < 2:
        return []
    found = _below(value, 0, depth)
    for node in ast.walk(owner):
        if found is None:
            return None
        more = _added(node, attribute, depth)
        found = None if more is None else found + more
    return found if found else None


def _added(node: ast.AST, attribute: str, depth: int) -> _Levels | None:
    """What this statement or call puts into the container, or into one of those in it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        level = _level(node.func.value, attribute)
        at = {**_ADDING, **_ADDING_MANY}.get(node.func.attr)
        if level is None or at is None:
            return []
        if len(node.args) <= at:
            return None
        return (_made if node.func.attr in _ADDING else _below)(node.args[at], level + _is_one(node.func.attr), depth)
    if isinstance(node, ast.Assign):
        levels = [level for t in node.targets if (level := _level(t, attribute))]
        return _made(node.value, levels[0], depth) if levels else []
    if isinstance(node, ast.AugAssign) and (level := _level(node.target, attribute)) is not None:
        return _below(node.value, level, depth)
    return []


def _is_one(method: str) -> int:
    return 1 if method in _ADDING else 0


def _level(node: ast.expr, attribute: str) -> int | None:
    """0 for ``self.blocks``, 1 for ``self.blocks[i]`` and so on; None for another expression."""
    level = 0
    while isinstance(node, ast.Subscript):
        node, level = node.value, level + 1
    return level if bindings.text_of(node) == attribute else None


def _made(value: ast.expr, level: int, depth: int) -> _Levels | None:
    """An expression of a container at this level, with those in it; nothing for a layer, below the last level."""
    if level >= depth:
        return []
    if isinstance(value, ast.Starred):
        return None
    inner = _below(value, level, depth) if isinstance(value, _Display | ast.IfExp) else []
    return None if inner is None else [(value, level), *inner]


def _below(value: ast.expr, level: int, depth: int) -> _Levels | None:
    """The containers that are written inside this one."""
    if level + 1 >= depth:
        return []
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        return []  # an empty one
    if not isinstance(value, _Display | ast.IfExp):
        return None
    found: _Levels = []
    for item in _items(value):
        inner = _below(item, level, depth) if isinstance(value, ast.IfExp) else _made(item, level + 1, depth)
        if inner is None:
            return None
        found += inner
    return found


def _items(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.List | ast.Tuple):
        yield from value.elts
    elif isinstance(value, ast.Dict):
        yield from value.values
    elif isinstance(value, ast.DictComp):
        yield value.value
    elif isinstance(value, ast.ListComp | ast.GeneratorExp):
        yield value.elt
    elif isinstance(value, ast.IfExp):
        yield from (value.body, value.orelse)
