"""The torch.autograd.Functions of the user's program that a failing graph goes through: their classes and sources."""

from __future__ import annotations

import os
import sys
from itertools import zip_longest
from types import CodeType
from typing import Any

from graphdoc.capture.graph import walk
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.places.code_places import is_user_file, shown_file
from graphdoc.capture.places.frames import frames_of
from graphdoc.capture.places.source_texts import add_source
from graphdoc.capture.tensors.facts import grad_fn_of, is_leaf
from graphdoc.evidence import Evidence, Frame

MOST = 20
"""Classes told."""
MOST_ROOTS = 50
"""Tensors near the failure from which the graph is searched as well."""
MOST_NODES = walk.DEEP - 1
_MARKS = "torch.autograd.function"
"""The module of once_differentiable."""


def fill(evidence: Evidence, autopsy: Autopsy) -> None:
    """Tell the classes in ``extras["functions"]`` and add the files in which their backwards are written.

    The graph of the failing call is looked at, and that of the tensors that the frames hold: a gradient that was made
    by a backward without history has no edge to the Function that made it. The node of such a class is itself its
    ``ctx`` (torch.autograd.function.FunctionMeta), so that it knows which inputs need gradients.
    """
    told: dict[type, dict[str, Any]] = {}
    nodes = (*autopsy.order.nodes, *_nodes_behind(autopsy))
    classes = {cls for cls in set(map(type, nodes)) if isinstance(getattr(cls, "_forward_cls", None), type)}
    own = {n for n in nodes if type(n) in classes} if classes else ()
    for node in sorted(own, key=lambda n: int(n._sequence_nr())):
        cls = type(node)._forward_cls
        known = told.get(cls)
        if known is None:
            known = _describe(cls, node, evidence, autopsy) if len(told) < MOST else None
            if known is None:
                continue
            told[cls] = known
        count_inputs(known, node)
    for cls in subclasses(autopsy.torch.autograd.Function):
        # The gradient of a marked backward leads nowhere, so that its node may be in no graph that is still there.
        wanted = cls not in told and len(told) < MOST and _once(cls)
        if wanted and (marked := _describe(cls, None, evidence, autopsy)) is not None:
            told[cls] = marked
    if told:
        evidence.extras["functions"] = list(told.values())


def _nodes_behind(autopsy: Autopsy) -> set[Any]:
    tensors = [t for t in autopsy.census.tensors.values() if t.requires_grad and not is_leaf(t)]
    starts = [node for tensor in tensors[:MOST_ROOTS] if (node := grad_fn_of(tensor)) is not None]
    return {f.node for f in walk.walk(starts, MOST_NODES)}


def subclasses(cls: type) -> list[type]:
    """The classes that are made from this one."""
    return list(walk.reached(cls.__subclasses__(), type.__subclasses__))


def _once(cls: type) -> bool:
    """Whether its backward is what once_differentiable has made of one; functools.wraps tells of the one within."""
    outer = getattr(cls, "backward", None)
    code = getattr(outer, "__code__", None)
    return hasattr(outer, "__wrapped__") and code is not None and code.co_filename == sys.modules[_MARKS].__file__


def _describe(cls: type, node: Any, evidence: Evidence, autopsy: Autopsy) -> dict[str, Any] | None:
    """None for a Function that is not the user's own."""
    code = backward_code(cls)
    if code is None:
        return None
    made = frames_of(autopsy.raw_stack(node), autopsy.cwd) if node is not None else []
    return described(cls, code, node, _add_source(evidence, code.co_filename), made)


def backward_code(cls: type) -> CodeType | None:
    """The code of a Function's backward, without its marks; None for one that is not the user's own."""
    backward = getattr(cls, "backward", None)
    code = getattr(getattr(backward, "__wrapped__", backward), "__code__", None)
    return code if code is not None and is_user_file(code.co_filename) else None


def described(cls: type, code: CodeType, node: Any, file: str, made: list[Frame]) -> dict[str, Any]:
    """What the document holds of a Function: ``file`` is its backward's, ``made`` where the node was recorded."""
    return {
        "name": cls.__qualname__.rsplit(".", 1)[-1],
        "node": str(node.name()) if node is not None else "",
        "file": file,
        # A function's code begins at its first decorator.
        "backward": int(code.co_firstlineno),
        "once": _once(cls),
        "made": [dict(vars(f)) for f in made],
        "calls": 0,
        "needs": [],
        "tensors": 0,
    }


def count_inputs(told: dict[str, Any], node: Any) -> None:
    """Which inputs needed gradients in any of its calls, and how many of them were tensors at most.

    There is one edge for each input that is a tensor (collect_next_edges in python_function.cpp).
    """
    try:
        needs = [bool(n) for n in node.needs_input_grad]
        tensors = len(node.next_functions)
    except Exception:
        return
    told["calls"] += 1
    told["needs"] = [a or b for a, b in zip_longest(told["needs"], needs, fillvalue=False)]
    told["tensors"] = max(told["tensors"], tensors)


def _add_source(evidence: Evidence, path: str) -> str:
    """Keep the file's text and hash under the name that frames give it, and return that name."""
    full = os.path.abspath(os.path.join(evidence.process.cwd, path))
    name = shown_file(path, evidence.process.cwd)
    if name not in evidence.hashes:
        add_source(evidence, name, full)
    return name
