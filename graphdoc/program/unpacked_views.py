"""Which of several views that one call had returned a backward call needs, and of what expression they are views."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Event, Frame, Node, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.in_place_writes import bound_before
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user
from graphdoc.source.module import Source
from graphdoc.source.places import Place

_OF_ONE = frozenset(
    {"squeeze", "unsqueeze", "view", "view_as", "reshape", "transpose", "permute", "t", "flatten", "narrow", "select"}
)
"""Methods of a tensor that give one tensor."""
_SEVERAL = frozenset({"unbind", "chunk", "split", "split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit"})


@dataclass(frozen=True)
class Unpacked:
    """``used``: the operation that saved the view, ``names``: what the program calls it, or those of which it is one,
    ``whole``: the expression of the tensor that it is a view of (``state`` of ``a, b = state`` and of ``a, b =
    state.unbind()``); ``alone``: nothing else is read there. ``held``: the function that took the tensor apart is still
    under way, and may see through the parts what is written."""

    used: Frame
    names: tuple[str, ...]
    whole: Frame
    alone: bool
    held: bool


def unpacked_view(program: Program) -> Unpacked | None:
    """The view that the failing backward call could not take up; None where an optimizer has stepped since it was
    used: what was written may be the very parameter then, and the old views are no more to be had."""
    node, failing = program.evidence.failing_node, program.failing
    if node is None or failing is None or _stepped_since(node, failing, program.evidence.events):
        return None
    used = innermost_user(node.stack)
    source = Source(used.file, program.sources.get(used.file, "")) if used is not None else None
    if used is None or source is None or not used.column:
        return None
    parts: list[tuple[str, Frame]] = []
    operands = dict.fromkeys(o.text for o in source.operands(used))
    for name in operands:
        whole = _whole(program.sources, bound_before(program.sources, used, name))
        if whole is not None:
            parts.append((name, whole))
    if not parts:
        return None
    first = parts[0][1]
    names = tuple(n for n, whole in parts if whole.start == first.start)
    held = any((f.file, f.function) == (first.file, first.function) for f in failing.stack)
    return Unpacked(used, names, first, len(names) == len(operands), held)


def _stepped_since(node: Node, failing: Event, events: list[Event]) -> bool:
    return any(e.kind == "step" and e.sequence > node.sequence and e.index < failing.index for e in events)


def _whole(sources: SourceTexts, value: Frame | None) -> Frame | None:
    """The tensor of which the parts are bound by the statement of this value; None where it binds no parts."""
    source = Source(value.file, sources.get(value.file, "")) if value is not None else None
    node = source.node_expression(Place.of(value)) if source is not None else None
    if value is None or source is None or node is None:
        return None
    statement = source.node_owner(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.For) and statement.iter is node:
        targets = [statement.target]
    each = any(isinstance(t, ast.Tuple | ast.List) for t in targets) or isinstance(statement, ast.For)
    if not each or isinstance(node, ast.Tuple | ast.List):
        return None
    if isinstance(node, ast.Call):
        called = bindings.text_of(node.func)
        if called.rpartition(".")[2] in _SEVERAL:
            of = node.args[0] if called.startswith("torch.") and node.args else getattr(node.func, "value", None)
            return bindings.frame_of(sources, value.file, of, value.function) if of is not None else None
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _OF_ONE:
            return None  # a tuple of the function's own
    return value
