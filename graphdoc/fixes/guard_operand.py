"""Keep what a function is given inside of its domain: ``torch.log(p)`` → ``torch.log(p.clamp_min(1e-12))``.

Args:
    place: the expression: a call, a division (its divisor is meant) or a power (its base).
    guard: the method call to put behind the operand: ``clamp_min(1e-12)``. A ``clamp(a, b)`` of numbers that the
        operand already ends in is exchanged for one that is given as ``clamp(…)``.
    function: the function of PyTorch's that runs there, where its operand is a later argument.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.source.edits import write
from graphdoc.source.operands import operand_of
from graphdoc.source.places import Edit

KIND = "guard_operand"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    guard = str(required(args, "guard"))
    operand = operand_of(node, str(args.get("function", "")))
    if operand is None:
        raise CannotFix("what the function is given does not stand in its own words there")
    if guard.startswith("clamp(") and _clamped_by_numbers(operand):
        assert isinstance(operand, ast.Call) and isinstance(operand.func, ast.Attribute)
        inner = operand.func.value if not _from_torch(operand) else operand.args[0]
        return [write(source, operand, f"{{inner}}.{guard}", inner=inner)]
    return [write(source, operand, f"{{operand}}.{guard}", operand=operand)]


def _clamped_by_numbers(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    bounds = [*node.args[_from_torch(node) :], *(k.value for k in node.keywords)]
    return node.func.attr in ("clamp", "clip") and len(bounds) == 2 and all(_is_number(b) for b in bounds)


def _from_torch(node: ast.Call) -> bool:
    function = node.func
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "torch"


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
