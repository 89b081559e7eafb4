"""Give the branch that a ``torch.where`` does not take a harmless input: ``where(c, log(x), 0)`` →
``where(c, log(where(c, x, 1.0)), 0)``.

Args:
    branches: list of ``{"place": the function that has no value there, "safe": a value that it has one for}``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, expression, replace, required
from graphdoc.source.module import Source
from graphdoc.source.operands import operand_of
from graphdoc.source.places import Edit

KIND = "where_twice"


def edit(sources: Sources, args: Args) -> list[Edit]:
    edits: list[Edit] = []
    for branch in required(args, "branches"):
        source, node = expression(sources, branch["place"])
        operand = operand_of(node)
        if operand is None:
            raise CannotFix("what the branch is given does not stand in its own words there")
        where, taken = _choice(source, node)
        condition = where.args[0]
        text = source.segment(condition) if taken else _negated(source.segment(condition), condition)
        if any(isinstance(n, ast.Call) and ast.dump(n) == ast.dump(where) for n in ast.walk(operand)):
            raise CannotFix("the branch has a choice of its own")
        new = replace(source, operand, f"torch.where({text}, {source.segment(operand)}, {branch['safe']})")
        if not any(new.start < e.end and e.start < new.end for e in edits if e.file == new.file):
            edits.append(new)
    return edits


def _choice(source: Source, node: ast.expr) -> tuple[ast.Call, bool]:
    """The ``torch.where`` that chooses between this expression and another, and whether it takes it where true."""
    function = source.node_function(node)
    owner = source.node_owner(node)
    bound = {t.id for t in getattr(owner, "targets", ()) if isinstance(t, ast.Name)}
    for call in ast.walk(function or source.tree or ast.Module([], [])):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "torch.where" or len(call.args) != 3:
            continue
        for number, argument in enumerate(call.args[1:]):
            inside = any(n is node for n in ast.walk(argument))
            named = isinstance(argument, ast.Name) and argument.id in bound and call.lineno >= node.lineno
            if inside or named:
                return call, number == 0
    raise CannotFix("the choice and its branch do not stand in one function")


def _negated(text: str, node: ast.expr) -> str:
    return f"~{text}" if isinstance(node, ast.Name | ast.Attribute | ast.Call) else f"~({text})"
