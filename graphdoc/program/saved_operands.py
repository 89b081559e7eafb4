"""Which operand of an expression an operation has saved, by the name that PyTorch gives to what it saves."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import frame_of
from graphdoc.source.module import Source
from graphdoc.source.places import Place

_FIRST = frozenset({"self", "input"})
_SECOND = frozenset({"other", "mat2", "batch2", "vec", "tensor2"})
"""Names of arguments in derivatives.yaml (tools/autograd): the tensor itself, and the one that it is combined with."""
_OPERATIONS = (ast.Mult, ast.MatMult, ast.Div)


def saved_operand(sources: SourceTexts, frame: Frame, op: str, attribute: str) -> Frame | None:
    """The place of the operand in the expression at a place; None where the expression is not the operation itself.

    ``op`` is the node's name (``MmBackward0``), ``attribute`` what it has saved (``_saved_self``, ``_saved_mat2``).
    """
    saved = attribute.removeprefix("_saved_")
    which = 0 if saved in _FIRST else 1 if saved in _SECOND else None
    source = Source(frame.file, sources.get(frame.file, ""))
    node = source.node_expression(Place.of(frame))
    operands: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS):
        operands = [node.left, node.right]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is(node.func.attr, op):
        library = isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "th")
        operands = [*([] if library else [node.func.value]), *node.args]
    if isinstance(node, ast.Call) and node.keywords:
        return None
    if which is None or which >= len(operands) or isinstance(operands[which], ast.Starred | ast.Constant):
        return None
    return frame_of(sources, frame.file, operands[which], frame.function)


def _is(method: str, op: str) -> bool:
    """Whether a function or method of this name is the operation that the node is of: ``matmul`` may be several."""
    name = op.partition("Backward")[0].lower()
    return method == name or (method == "matmul" and name in ("mm", "bmm", "mv", "dot"))
