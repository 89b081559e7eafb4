"""Whether an inner gradient is an update: what it is the gradient of, less a part of it, goes on into the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program.bindings import argument, call_at, function_around, names_in, tree
from graphdoc.source.paths import key, pairs

_ADDING = frozenset({"add", "sub"})
_ENTRIES = frozenset({"values", "items", "parameters", "named_parameters"})
_FLAGS = frozenset({"requires_grad", "requires_grad_"})
_ROUNDS = 2


def is_inner_step(sources: SourceTexts, inner: Event) -> bool:
    """Whether the result of an ``autograd.grad`` is taken from, or added to, what was asked for: ``p - rate * g``.

    Such a step is of first order where the gradient is a number, and of second order where it has a graph: both train
    what stands in front of it. Followed along the frames that the call was made in, by the arguments and the results of
    their calls.
    """
    frames = [f for f in reversed(inner.stack) if f.user]
    return any(_steps(sources, frame, frame is frames[0]) for frame in frames)


def _steps(sources: SourceTexts, frame: Frame, own: bool) -> bool:
    root, call = tree(sources, frame.file), call_at(sources, frame)
    if root is None or call is None:
        return False
    scope = function_around(root, frame.line) or root
    asked = [argument(call, 1, "inputs")] if own else [*call.args, *(k.value for k in call.keywords)]
    inputs = {n for a in asked for n in _names(a)}
    gradients = _named(scope, call)
    for _ in range(_ROUNDS):
        for target, value in _bound(scope):
            inputs |= _names(value) if key(target) in inputs and not _reads(value, gradients) else set()
            if isinstance(target, ast.Name):
                gradients |= {target.id} if _reads(value, gradients) and target.id not in inputs else set()
        for target, value in _elements(scope):
            read = _names(value)
            (gradients if read & gradients else inputs if read & inputs else set()).update(_names(target))
    started = inputs - gradients - _data(scope)
    return any(_is_step(node, started, gradients, call) for node in ast.walk(scope))


def _data(scope: ast.AST) -> set[str]:
    """What was made to require a gradient for the sake of the derivative alone: nothing behind it is trained."""
    out: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_":
            out |= _names(node.func.value)
        if isinstance(node, ast.Assign):
            made = [n for n in ast.walk(node.value) if isinstance(n, ast.Attribute | ast.keyword)]
            flagged = any((n.attr if isinstance(n, ast.Attribute) else n.arg or "") in _FLAGS for n in made)
            ends = [t for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Attribute | ast.Name)]
            out |= {key(t) for t in ends if flagged and isinstance(t.ctx, ast.Store)}
            out |= {key(t.value) for t in ends if isinstance(t, ast.Attribute) and t.attr in _FLAGS}
    return out


def _named(scope: ast.AST, call: ast.Call) -> set[str]:
    """The names that a call's result gets."""
    values = ((t, v) for t, v in _bound(scope) if any(n is call for n in ast.walk(v)))
    return {name for target, _ in values for name in _names(target)}


def _bound(scope: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            yield from pairs(node)


def _elements(scope: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What loops and comprehensions bind, with what each of it runs over."""
    for node in ast.walk(scope):
        if isinstance(node, ast.For | ast.comprehension):
            yield from _run_over(node.target, node.iter)


def _run_over(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    several = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and several:
        if value.func.id == "zip" and len(value.args) == len(several):
            for one, its in zip(several, value.args, strict=True):
                yield from _run_over(one, its)
            return
        if value.func.id == "enumerate" and value.args:
            yield from _run_over(several[-1], value.args[0])
            return
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "items" and several:
        target = several[-1]
    yield target, value


def _is_step(node: ast.AST, inputs: set[str], gradients: set[str], call: ast.Call) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sides = [(node.left, node.right), (node.right, node.left)]
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING and node.args
    ):
        sides = [(node.func.value, node.args[-1]), (node.args[0], node.args[-1])]
    else:
        return False
    return any(
        _is_one_of(start, inputs) and (_reads(change, gradients) or any(n is call for n in ast.walk(change)))
        for start, change in sides
    )


def _is_one_of(node: ast.expr, names: set[str]) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    return key(node) in names if isinstance(node, ast.Name | ast.Attribute) else False


def _names(node: ast.AST | None) -> set[str]:
    """What an expression reads; of a call that gives the entries of something (``params.values()``), that."""
    return {head if tail in _ENTRIES else name for name in names_in(node) for head, _, tail in [name.rpartition(".")]}


def _reads(node: ast.expr, names: set[str]) -> bool:
    return bool(names & _names(node))
