"""What a backward call of the program differentiates, as it is written there."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import call_at, text_of
from graphdoc.program.spans import innermost_user


def differentiated_in(sources: SourceTexts, stack: Sequence[Frame]) -> str:
    """``loss`` of ``loss.backward()``, where that is the tensor's own method, and of ``torch.autograd.backward(loss)``
    or ``accelerator.backward(loss)``; empty where the program makes another call."""
    frame = innermost_user(stack)
    call = call_at(sources, frame)
    if frame is None or call is None or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return ""
    below = stack[list(stack).index(frame) + 1 :]
    if not below or below[0].function == "Tensor.backward":
        return text_of(call.func.value)
    given = call.args[0] if call.args else None
    if isinstance(given, ast.List | ast.Tuple) and len(given.elts) == 1:
        given = given.elts[0]
    return text_of(given)
