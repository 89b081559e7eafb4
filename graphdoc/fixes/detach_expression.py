"""Detach at the use: ``.detach()`` on an expression, or on operands inside it.

Args:
    place: the expression.
    operands: optional; texts of the operands inside it that are detached instead, each a string such as
        ``"self.hidden"`` or a pair ``[text, structure]``.
    structure: of the expression or of the operands given as strings; ``"tensor"`` by default (``fixes.structures``).
"""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.module import Source
from graphdoc.source.paths import key, parse_expression
from graphdoc.source.places import Edit

KIND = "detach_expression"

# Reading these takes no gradient along.
_METADATA = frozenset(
    {"shape", "dtype", "device", "ndim", "size", "dim", "numel", "layout", "is_cuda", "requires_grad", "grad"}
    | {"data", "detach"}
)


def edit(sources: Sources, args: Args) -> list[Edit]:
    return convert(sources, args, "detach")


def convert(sources: Sources, args: Args, method: str) -> list[Edit]:
    """The same edit with any method that takes no argument (``detach``, ``clone``)."""
    source, node = expression(sources, required(args, "place"))
    structure = args.get("structure") or "tensor"
    operands = args.get("operands")
    if not operands:
        if not args.get("structure") and _taken_apart(source, node):
            raise CannotFix("its value is taken apart there, and may be no tensor")
        return convert_expression(source, node, structure, method)
    edits: list[Edit] = []
    for operand in operands:
        text, own = (operand, structure) if isinstance(operand, str) else (operand[0], operand[1])
        edits += _operand(source, node, text, own, method)
    return edits


def _taken_apart(source: Source, node: ast.expr) -> bool:
    """Whether the statement gives each part of the value a name of its own."""
    above = source.parents.get(node)
    if not isinstance(above, ast.Assign) or above.value is not node:
        return False
    return any(isinstance(t, ast.Tuple | ast.List) for t in above.targets)


def _operand(source: Source, node: ast.expr, text: str, structure: Any, method: str) -> list[Edit]:
    wanted = parse_expression(text)
    if wanted is None:
        raise CannotFix(f"{text} is not an expression")
    spelling = key(wanted)
    found: list[ast.expr] = []
    spared = False

    def visit(n: ast.AST, above: ast.AST | None) -> None:
        nonlocal spared
        if isinstance(n, type(wanted)) and isinstance(n, ast.expr) and key(n) == spelling:
            if isinstance(above, ast.Attribute) and above.attr in _METADATA:
                spared = True
            elif isinstance(getattr(n, "ctx", ast.Load()), ast.Load):
                found.append(n)
            return
        for child in ast.iter_child_nodes(n):
            visit(child, n)

    visit(node, source.parents.get(node))
    if not found:
        raise CannotFix(f"{text} is already detached there" if spared else f"{text} does not occur in the expression")
    return [e for n in found for e in convert_expression(source, n, structure, method)]
