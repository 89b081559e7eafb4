"""Functions of the user's that hand a value on as it is, and are there for what they make of its gradient."""

from __future__ import annotations

import ast

from graphdoc.evidence import SourceTexts
from graphdoc.program import bindings
from graphdoc.program.custom_functions import inputs_of

_AS_IT_IS = frozenset({"view_as", "view", "clone", "alias", "expand_as", "reshape", "contiguous", "mul"})


def changes_the_gradient_alone(sources: SourceTexts, op: str) -> bool:
    """Whether a node is that of a Function whose forward gives back its input, and whose backward does not: a gradient
    reversal, a scale, a clip. Whoever applies one wants the gradient to go through it.

    Args:
        op: the name of the node: that of the class and ``Backward`` (torch/csrc/autograd/python_function.cpp).
    """
    name = op.removesuffix("Backward")
    for file in sources if name != op else ():
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
            if isinstance(node, ast.ClassDef) and node.name == name:
                methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
                forward, backward = methods.get("forward"), methods.get("backward")
                return forward is not None and backward is not None and _hands_on(forward) and not _hands_on(backward)
    return False


def _hands_on(function: ast.FunctionDef) -> bool:
    """Whether all that a method of a Function gives back is what it was given first."""
    given = inputs_of(function)[:1]
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]
    return bool(given and returned) and all(_is_as_it_is(value, given[0]) for value in returned)


def _is_as_it_is(value: ast.expr, name: str) -> bool:
    if isinstance(value, ast.Tuple) and value.elts:
        return _is_as_it_is(value.elts[0], name)
    if isinstance(value, ast.Name):
        return value.id == name
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return any(
            _is_as_it_is(a, name) and _is_one(b) for a, b in ((value.left, value.right), (value.right, value.left))
        )
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _AS_IT_IS:
        factors = value.func.attr != "mul" or all(_is_one(a) for a in value.args)
        return factors and _is_as_it_is(value.func.value, name)
    return False


def _is_one(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == 1
