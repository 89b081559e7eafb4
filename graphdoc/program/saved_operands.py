"""Which operand of an expression an operation has saved, by the name that PyTorch gives to what it saves."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import frame_of
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, key
from graphdoc.source.places import Place
from graphdoc.source.scopes import imported_as

_FIRST = frozenset({"self", "input"})
_SECOND = frozenset({"other", "mat2", "batch2", "vec", "tensor2"})
"""Names of arguments in derivatives.yaml (tools/autograd): the tensor itself, and the one that it is combined with."""
_MADE_OF = {
    "matmul": ("mm", "bmm", "mv", "dot"),
    "norm": ("linalgvectornorm",),
    "vector_norm": ("linalgvectornorm",),
    "square": ("pow",),
}
"""Functions that are recorded as another one (CompositeImplicitAutograd in native_functions.yaml)."""
_LIBRARIES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special")
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
        library = _is_library(source, node.func.value)
        operands = [*([] if library else [node.func.value]), *node.args]
    if which is None or which >= len(operands) or isinstance(operands[which], ast.Starred | ast.Constant):
        return None
    return frame_of(sources, frame.file, operands[which], frame.function)


def _is_library(source: Source, node: ast.expr) -> bool:
    return is_path(node) and key(node) in {imported_as(source, module, node) for module in _LIBRARIES}


def _is(method: str, op: str) -> bool:
    """Whether a function or method of this name is the operation that the node is of, or is made of it."""
    name = op.partition("Backward")[0].lower()
    return method.replace("_", "") == name or name in _MADE_OF.get(method, ())
