"""The statements that hide a missing graph: ``loss.requires_grad_()`` and its kin."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import innermost_user

_WRAPPERS = {"Variable", "Parameter", "tensor", "as_tensor"}


def cover_ups(sources: SourceTexts, as_if: Sign | None) -> list[Frame]:
    """The statements that make the loss of the backward call of ``evidence.as_if`` a tensor that requires gradients."""
    sign = as_if
    frame = innermost_user(sign.stack) if sign is not None else None
    root = bindings.tree(sources, frame.file) if frame is not None else None
    call = bindings.call_at(sources, frame)
    if frame is None or root is None or call is None or not isinstance(call.func, ast.Attribute):
        return []
    name = bindings.text_of(call.func.value)
    scope = bindings.function_around(root, frame.line) or root
    found = [n for n in bindings.shallow(scope) if isinstance(n, ast.stmt) and _covers(n, name)]
    return [bindings.frame_of(sources, frame.file, n) for n in found if n.lineno < frame.line]


def _covers(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        text = bindings.text_of(node.value)
        return text in (f"{name}.requires_grad_()", f"{name}.requires_grad_(True)")
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = bindings.text_of(node.targets[0])
    if target == f"{name}.requires_grad":
        return isinstance(node.value, ast.Constant) and node.value.value is True
    if target != name or not isinstance(node.value, ast.Call):
        return False
    call = node.value
    if bindings.text_of(call) in (f"{name}.requires_grad_()", f"{name}.requires_grad_(True)"):
        return True
    wraps = bindings.dotted(call.func).rpartition(".")[2] in _WRAPPERS
    return wraps and bool(call.args) and bindings.text_of(call.args[0]) == name
