"""A list of tensors, one a row, in place of one buffer of which each loss takes a row of its own.

``v = torch.zeros(n, t)`` → ``v = [row.clone() for row in torch.zeros(n, t)]``; ``v[i, t]`` → ``v[i][t]``. Every row
then has its own version and its own graph.

Args:
    read: the place where a row is read, ``v[i]``; ``v`` is a name or ``self.v``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.source.edits import write
from graphdoc.source.module import Source
from graphdoc.source.paths import key, without_subscripts
from graphdoc.source.places import Edit
from graphdoc.source.rows import counts, first_index
from graphdoc.source.scopes import fresh_name

KIND = "rows_of_buffer"
KEEPS_NUMBERS = True
_MAKERS = frozenset({"zeros", "empty", "ones", "full", "new_zeros", "new_empty", "new_ones", "new_full"})
_KINDS = frozenset({"float", "double", "half", "to", "cuda", "cpu"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "read"))
    if not isinstance(node, ast.Subscript):
        raise CannotFix("no row of a buffer is read there")
    path = key(without_subscripts(node))
    scope = _scope(source, node, path)
    uses = [n for n in ast.walk(scope) if isinstance(n, ast.Name | ast.Attribute) and key(n) == path]
    if "." in path:
        _refuse_elsewhere(sources.values(), scope, path.split(".")[1])
    edits: list[Edit] = []
    made = 0
    for use in uses:
        statement = source.node_owner(use)
        if isinstance(statement, ast.Assign) and statement.targets == [use]:
            edits.append(_rows(source, statement, path))
            made += 1
        else:
            edits += _row(source, use, path)
    if not made:
        raise CannotFix(f"where {path} is allocated is not known")
    return edits


def _scope(source: Source, node: ast.AST, path: str) -> ast.AST:
    """Where the buffer's name is used: its function, or for ``self.v`` its class."""
    first, *rest = path.split(".")
    kind = (ast.ClassDef,) if rest else (ast.FunctionDef, ast.AsyncFunctionDef)
    if len(rest) > 1 or (rest and first != "self"):
        raise CannotFix(f"{path} is not this class's own")
    above = next((a for a in source.node_ancestors(node) if isinstance(a, kind)), None)
    if above is None and (rest or source.tree is None):
        raise CannotFix(f"the class of {path} is not known")
    scope: ast.AST | None = above if above is not None else source.tree
    assert scope is not None
    return scope


def _refuse_elsewhere(sources: Iterable[Source], scope: ast.AST, name: str) -> None:
    """Refuse where other code reads the attribute: it may want one tensor.

    Raises:
        CannotFix: an attribute of this name is read outside of the class, on something else than a ``self``.
    """
    own = set(ast.walk(scope))
    for source in sources:
        for node in ast.walk(source.tree) if source.tree is not None else ():
            if not isinstance(node, ast.Attribute) or node.attr != name or node in own:
                continue
            called = source.parents.get(node)
            theirs = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not theirs and not (isinstance(called, ast.Call) and called.func is node):
                raise CannotFix(f"{name} is used at {source.file}:{node.lineno} too")


def _rows(source: Source, statement: ast.Assign, path: str) -> Edit:
    """The allocation, one row at a time."""
    value: ast.expr = statement.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KINDS:
        value = value.func.value
    maker = value.func if isinstance(value, ast.Call) else None
    if not isinstance(maker, ast.Attribute) or maker.attr not in _MAKERS:
        raise CannotFix(f"{path} is more than a new tensor of one value at line {statement.lineno}")
    name = fresh_name(source, "row", "one_row")
    return write(source, statement.value, f"[{name}.clone() for {name} in {{buffer}}]", buffer=statement.value)


def _row(source: Source, use: ast.AST, path: str) -> list[Edit]:
    """What a read or write of one row, or of a part of it, becomes."""
    above = source.parents.get(use)
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id == "len":
        return []
    first = first_index(above) if isinstance(above, ast.Subscript) and above.value is use else None
    number = isinstance(first, ast.Constant) and type(first.value) is int
    if not isinstance(above, ast.Subscript) or not (number or (isinstance(first, ast.Name) and counts(source, first))):
        raise CannotFix(f"{path} is used as a whole at line {getattr(use, 'lineno', 0)}")
    if not isinstance(above.slice, ast.Tuple):
        return []
    rest = [f"index{i}" for i in range(1, len(above.slice.elts))]
    template = "{buffer}[{index0}]" + (f"[{', '.join(f'{{{name}}}' for name in rest)}]" if rest else "")
    parts = {f"index{i}": e for i, e in enumerate(above.slice.elts)}
    return [write(source, above, template, buffer=above.value, **parts)]
