"""What a program hands to NumPy: the argument, whether it is a container of tensors, and where its result goes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, Raised
from graphdoc.program import bindings
from graphdoc.program.arrays_again import in_the_loss, tensor_again
from graphdoc.program.observed import Program
from graphdoc.program.tensors import reached

_MODULE_CALL = "torch/nn/modules/module.py"


@dataclass(frozen=True)
class ArrayCall:
    """A call below which NumPy got a tensor that requires gradients.

    ``argument`` is the one that holds the tensor, as far as that is known, else its first; ``holds`` what that is known
    to be: ``"tensor"``, ``"list"`` (of tensors), ``"nested"`` (with tensors inside its entries) or empty. ``learned``
    tells whether the result goes on into what is trained, so that a detached one would end that; ``back`` is the place
    at which it, or what NumPy makes of it, becomes a tensor again, ``loss`` the call of backward on what is computed
    with it.
    """

    call: ast.Call
    argument: ast.expr | None
    holds: str
    learned: bool
    back: Frame | None = None
    loss: Frame | None = None

    @property
    def direct(self) -> bool:
        """Whether it is the tensor's own method: ``x.numpy()``."""
        return bindings.text_of(self.call.func).endswith(".numpy")

    @property
    def converts(self) -> bool:
        """Whether the call makes an array of one tensor: ``np.asarray(x)``."""
        return bindings.text_of(self.call.func).rsplit(".", 1)[-1] in ("asarray", "array") and self.holds != "list"


def array_call(program: Program, frame: Frame | None) -> ArrayCall | None:
    """The call at the frame that the traceback of the conversion ends in, or None."""
    call = bindings.call_at(program.sources, frame)
    if call is None or frame is None:
        return None
    given = _handed(program.evidence.extras, call)
    stack = program.raised.stack if program.raised is not None else [frame]
    loss = in_the_loss(program.sources, stack)
    return ArrayCall(
        call,
        given,
        _holds(program.evidence.extras, given),
        _in_forward(program.raised) or loss is not None,
        tensor_again(program.sources, stack),
        loss,
    )


def _handed(extras: dict[str, Any], call: ast.Call) -> ast.expr | None:
    """The argument with the tensor: one that is known to hold it, else the first that NumPy has not made itself."""
    given = [*call.args, *(k.value for k in call.keywords if k.arg)]
    known = next((a for a in given if _holds(extras, a) and not isinstance(a, ast.List | ast.ListComp)), None)
    maybe = (a for a in given if not isinstance(a, ast.Constant) and not _makes_array(a))
    return known or next(maybe, given[0] if given else None)


def _makes_array(node: ast.expr) -> bool:
    text = bindings.text_of(node.func) if isinstance(node, ast.Call) else ""
    return text.partition(".")[0] in ("np", "numpy") or text in ("len", "range")


def _holds(extras: dict[str, Any], node: ast.expr | None) -> str:
    if isinstance(node, ast.List | ast.ListComp):
        return "list"
    if not isinstance(node, ast.Name | ast.Attribute):
        return ""
    text = ast.unparse(node)
    paths = [t.path for t in reached(extras)]
    if text in paths:
        return "tensor"
    if any(re.fullmatch(re.escape(text) + r"\[\d+\]", p) for p in paths):
        return "list"
    return "nested" if any(p.startswith(f"{text}[") for p in paths) else ""


def _in_forward(raised: Raised | None) -> bool:
    """Whether a module was computing its output, with gradients recorded: the result becomes a part of it."""
    stack = raised.stack if raised is not None else []
    called = max((i for i, f in enumerate(stack) if f.file.replace("\\", "/").endswith(_MODULE_CALL)), default=-1)
    return any(f.user for f in stack[called + 1 :]) if called >= 0 else False
