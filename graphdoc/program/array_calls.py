"""What a program hands to NumPy: the argument, whether it is a container of tensors, and where its result goes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.arrays_again import tensor_again
from graphdoc.program.observed import Program
from graphdoc.program.tensors import reached
from graphdoc.source.paths import covers

_MODULE_CALL = "torch/nn/modules/module.py"


@dataclass(frozen=True)
class ArrayCall:
    """A call below which NumPy got a tensor that requires gradients.

    ``argument`` is the one that holds the tensor, as far as that is known, else its first; ``holds`` what that is known
    to be: ``"tensor"``, ``"list"`` (of tensors), ``"nested"`` (with tensors inside its entries) or empty. ``learned``
    tells whether the result goes on into what is trained, so that a detached one would end that; ``back`` is the place
    at which it, or what NumPy makes of it, becomes a tensor again.
    """

    call: ast.Call
    argument: ast.expr | None
    holds: str
    learned: bool
    back: Frame | None = None

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
    return ArrayCall(
        call,
        given,
        _holds(program.evidence.extras, given),
        _in_forward(program.raised) or _differentiated(program.sources, frame),
        tensor_again(program.sources, program.raised.stack if program.raised is not None else [frame]),
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
    return any(f.file.replace("\\", "/").endswith(_MODULE_CALL) for f in _called(stack))


def _called(stack: list[Frame]) -> list[Frame]:
    """The frames between the user's two innermost ones: what has called the function that the failing line is in."""
    users = [i for i, f in enumerate(stack) if f.user]
    return stack[users[-2] + 1 : users[-1]] if len(users) > 1 else []


def _differentiated(sources: SourceTexts, frame: Frame) -> bool:
    """Whether backward is called on the name that the statement around the frame assigns."""
    root = bindings.tree(sources, frame.file)
    around = bindings.function_around(root, frame.line) if root is not None else None
    names: set[str] = set()
    ends: set[str] = set()
    for node in bindings.shallow(around or root) if root is not None else ():
        if isinstance(node, ast.Assign) and covers(node, frame.line):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            ends |= set(bindings.names_in(node.func.value))
    return bool(names & ends)
