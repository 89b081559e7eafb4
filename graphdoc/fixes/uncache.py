"""Compute a cached value each time.

``if key not in cache: cache[key] = expr`` (also ``is None``, ``not hasattr``, ``not x``) becomes its body;
``if key in cache: return cache[key]`` goes; with an ``else`` the computing branch stays; ``@lru_cache`` and ``@cache``
are removed, and ``@cached_property`` becomes ``@property``.

Args:
    place: anything in the ``if`` (its test, the assignment, the return), the statement that stores what an ``if`` of
        the same function returns from there, or the function with the decorator.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import delete, drop_decorator, unwrap, write
from graphdoc.source.effects import another_each_time
from graphdoc.source.module import Function, Source
from graphdoc.source.paths import same, targets_of
from graphdoc.source.places import Edit

KIND = "uncache"

_DECORATORS = ("lru_cache", "cache")


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    for above in (node, *source.node_ancestors(node)):
        if isinstance(above, ast.If):
            present = _present(above.test)
            if present is not None and (present or _fills(above)):
                _refuse_draws(source.node_function(above) if present else above)
                return _without(source, above, present)
        if isinstance(above, Function):
            for decorator in above.decorator_list:
                name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if name.split(".")[-1] in (*_DECORATORS, "cached_property"):
                    _refuse_draws(above)
                if name.split(".")[-1] in _DECORATORS:
                    return drop_decorator(source, above, decorator)
                if name.split(".")[-1] == "cached_property":
                    return [write(source, decorator, "property")]
            returning = _returning(source, above, node)
            if returning is not None:
                _refuse_draws(above)
                return _without(source, returning, True)
            break
    raise CannotFix("no cache is recognised around that place")


def _refuse_draws(node: ast.AST | None) -> None:
    """Refuse where the value is drawn: computed each time it would be another one each time.

    Raises:
        CannotFix: it draws, or takes the next of something.
    """
    drawing = another_each_time(node) if node is not None else ""
    if drawing:
        raise CannotFix(f"`{drawing}` gives another value each time")


def _fills(node: ast.If) -> bool:
    """Whether the branch for a missing value stores what its test asks for; of a key or attribute that is known."""
    test = node.test
    if isinstance(test, ast.UnaryOp):
        asked: ast.expr | None = test.operand
    else:
        asked = test.left if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq) else None
    if not isinstance(asked, ast.Name | ast.Attribute):
        return True
    stored = [t for s in node.body for n in ast.walk(s) for t in targets_of(n)]
    return any(same(t, asked) or (isinstance(t, ast.Subscript) and same(t.value, asked)) for t in stored)


def _returning(source: Source, function: Function, stored: ast.stmt) -> ast.If | None:
    """The ``if`` that returns what a statement stores, where it is there already; None where there is none."""
    targets = stored.targets if isinstance(stored, ast.Assign) else []
    for node in ast.walk(function):
        if not isinstance(node, ast.If) or source.node_function(node) is not function or not _present(node.test):
            continue
        last = node.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        while value is not None:  # cache[k], cache[k].to(device), cache[:n]
            if any(same(t, value) for t in targets):
                return node
            value = value.func if isinstance(value, ast.Call) else getattr(value, "value", None)
    return None


def _without(source: Source, node: ast.If, present: bool) -> list[Edit]:
    found = source.node_block(node)
    above = source.parents.get(node)
    if isinstance(above, ast.If) and node in above.orelse and source.code.startswith("elif", source.span(node)[0]):
        raise CannotFix("the cache is one of several branches")
    if not present:
        return unwrap(source, node)
    if node.orelse:
        return unwrap(source, node, node.orelse)
    if found is None or len(found[0]) < 2 or not isinstance(node.body[-1], ast.Return):
        raise CannotFix("nothing would compute the value")
    return delete(source, node)


def _present(test: ast.expr) -> bool | None:
    """True where the test holds for a cached value, False where for a missing one, None where it is no such test."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _present(test.operand)
        if inner is None and isinstance(test.operand, ast.Name | ast.Attribute):
            return False
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        # Whatever else has to hold: without the branch the value is computed.
        return True if any(_present(operand) is True for operand in test.values) else None
    if isinstance(test, ast.Call):
        return True if getattr(test.func, "id", "") == "hasattr" else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    operator, right = test.ops[0], test.comparators[0]
    none = isinstance(right, ast.Constant) and right.value is None
    if isinstance(operator, ast.In | ast.NotIn):
        return isinstance(operator, ast.In)
    if none and isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        return isinstance(operator, ast.IsNot | ast.NotEq)
    return None
