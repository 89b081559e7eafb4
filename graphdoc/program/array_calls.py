"""What a program hands to NumPy: the argument, whether it is a container of tensors, and where its result goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.arrays_again import in_the_loss, tensor_again
from graphdoc.program.graph_ways import with_graph
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
    with it. ``put`` are the tensors with a graph that the function puts into the argument, a list, and ``shown``
    whether it reads that list for nothing before this call.
    """

    call: ast.Call
    argument: ast.expr | None
    holds: str
    learned: bool
    back: Frame | None = None
    loss: Frame | None = None
    put: tuple[Frame, ...] = ()
    shown: bool = False

    @property
    def direct(self) -> bool:
        """Whether it is the tensor's own method: ``x.numpy()``."""
        return bindings.text_of(self.call.func).endswith(".numpy")

    @property
    def keeps_graphs(self) -> bool:
        """Whether a list holds entries with a graph that it need not have: a list of records, or one only shown."""
        return self.holds == "nested" or (self.holds == "list" and self.shown and not self.learned)

    @property
    def converts(self) -> bool:
        """Whether the call makes an array of one tensor: ``np.asarray(x)``."""
        return bindings.text_of(self.call.func).rsplit(".", 1)[-1] in ("asarray", "array") and self.holds != "list"


def array_call(program: Program, frame: Frame | None) -> ArrayCall | None:
    """The call at the frame that the traceback of the conversion ends in, or None."""
    call = bindings.call_at(program.sources, frame)
    if call is None or frame is None:
        return None
    lists = _filled(program.sources, frame, with_graph(program.evidence.extras, frame.function))
    given = _handed(program.evidence.extras, call, lists)
    name = bindings.text_of(given)
    stack = program.raised.stack if program.raised is not None else [frame]
    loss = in_the_loss(program.sources, stack)
    return ArrayCall(
        call,
        given,
        _holds(program.evidence.extras, given, lists),
        _in_forward(program.raised) or loss is not None,
        tensor_again(program.sources, stack),
        loss,
        tuple(lists.get(name, ())),
        name in lists and not _read_before(program.sources, frame, name),
    )


def _filled(sources: SourceTexts, frame: Frame, graphs: set[str]) -> dict[str, list[Frame]]:
    """The lists into which the frame's file puts tensors that have a graph there, and where each of these stands."""
    out: dict[str, list[Frame]] = {}
    for kept, call in _filling(bindings.tree(sources, frame.file)):
        names = [n for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name) and n.id in graphs]
        found = [bindings.frame_of(sources, frame.file, n, frame.function) for n in names]
        if found:
            out.setdefault(bindings.text_of(kept), []).extend(found)
    return out


def _filling(scope: ast.AST | None) -> Iterator[tuple[ast.expr, ast.Call]]:
    """The calls that put something into a list, each with the list."""
    for n in ast.walk(scope) if scope is not None else ():
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("append", "insert"):
            yield n.func.value, n


def _read_before(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the list is read above the call for anything but to put something in."""
    root = bindings.tree(sources, frame.file)
    scope = (bindings.function_around(root, frame.line) or root) if root is not None else None
    filled = {id(kept) for kept, _ in _filling(scope)}
    return any(
        bindings.text_of(n) == name and isinstance(n.ctx, ast.Load) and id(n) not in filled and n.lineno < frame.line
        for n in (ast.walk(scope) if scope is not None else ())
        if isinstance(n, ast.Name | ast.Attribute)
    )


def _handed(extras: dict[str, Any], call: ast.Call, lists: dict[str, list[Frame]]) -> ast.expr | None:
    """The argument with the tensor: one that is known to hold it, else the first that NumPy has not made itself."""
    given = [*call.args, *(k.value for k in call.keywords if k.arg)]
    known = next((a for a in given if _holds(extras, a, lists) and not isinstance(a, ast.List | ast.ListComp)), None)
    maybe = (a for a in given if not isinstance(a, ast.Constant) and not _makes_array(a))
    return known or next(maybe, given[0] if given else None)


def _makes_array(node: ast.expr) -> bool:
    text = bindings.text_of(node.func) if isinstance(node, ast.Call) else ""
    return text.partition(".")[0] in ("np", "numpy") or text in ("len", "range")


def _holds(extras: dict[str, Any], node: ast.expr | None, lists: dict[str, list[Frame]]) -> str:
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
    if any(p.startswith(f"{text}[") for p in paths):
        return "nested"
    return "list" if text in lists else ""  # what has a name of its own is not told again as an entry


def _in_forward(raised: Raised | None) -> bool:
    """Whether a module was computing its output, with gradients recorded: the result becomes a part of it."""
    stack = raised.stack if raised is not None else []
    called = max((i for i, f in enumerate(stack) if f.file.replace("\\", "/").endswith(_MODULE_CALL)), default=-1)
    return any(f.user for f in stack[called + 1 :]) if called >= 0 else False
