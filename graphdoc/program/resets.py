"""Statements that give a whole tensor new numbers in place: the graph behind what it held before stays with it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Event, Frame, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import frame_of, tree
from graphdoc.program.container_entries import statements, statements_at
from graphdoc.program.keeping_statements import kept_name
from graphdoc.program.loops import node_loop_of
from graphdoc.program.spans import innermost_user
from graphdoc.source.paths import covers, is_path, last_word

_FILLING = frozenset({"zero_", "fill_", "copy_", "normal_", "uniform_", "zeros_", "ones_", "constant_"})
_WRITES = ("Zero", "Fill", "torch::autograd::Copy", "Normal", "Uniform")
_LIBRARY = frozenset({"torch", "init"})


@dataclass(frozen=True)
class Reset:
    """A reset in place: its statement, the tensor as it is spelled there, and the node that autograd made of it.

    No node where it is written behind autograd's back (``.data``, ``no_grad``).
    """

    frame: Frame
    path: str
    node: Node | None = None


def resets_of(sources: SourceTexts, nodes: list[Node], carries: list[OlderEdge], failing: Event | None) -> list[Reset]:
    """The resets by which all of the older values come into the failing graph; empty where one comes another way."""
    found = [_recorded(sources, node_with(nodes, c.consumer)) or _unrecorded(sources, c, failing) for c in carries]
    resets = [r for r in found if r is not None]
    every = {(r.frame.start, r.path): r for r in resets}
    return list(every.values()) if len(resets) == len(carries) else []


def _recorded(sources: SourceTexts, taking: Node | None) -> Reset | None:
    """The reset that a node stands for."""
    frame = innermost_user(taking.stack) if taking is not None else None
    if taking is None or frame is None:
        return None
    for s in statements_at(sources, frame)[-1:]:
        tensor = _written(s)
        times_zero = taking.op.startswith("Mul") and _times_zero(s)
        if tensor is not None and (times_zero or (taking.op.startswith(_WRITES) and not _times_zero(s))):
            return Reset(frame_of(sources, frame.file, s, frame.function), ast.unparse(tensor), taking)
    return None


def _unrecorded(sources: SourceTexts, carry: OlderEdge, failing: Event | None) -> Reset | None:
    """The one statement that resets what keeps a value, through ``.data`` or under ``no_grad``, in each round of a loop
    around the call: it stands there, or in a function that is called there."""
    loops = [(f, node_loop_of(sources, f)) for f in failing.stack if f.user] if failing is not None else []
    around = [(f.file, loop) for f, loop in loops if loop is not None]
    called = {last_word(n.func) for _, loop in around for n in ast.walk(loop) if isinstance(n, ast.Call)}
    names = {kept_name(h) for h in carry.tensor.holders} - {""}
    found = []
    for file in sources:
        root = tree(sources, file)
        for scope in ast.walk(root) if root is not None else ():
            if isinstance(scope, ast.Module | ast.FunctionDef):
                name = getattr(scope, "name", "<module>")
                for s in statements(scope):
                    tensor = _hidden(scope, s)
                    inside = any(file == f and covers(loop, s.lineno) for f, loop in around)
                    if tensor is not None and last_word(tensor) in names and (inside or name in called):
                        found.append(Reset(frame_of(sources, file, s, name), ast.unparse(tensor)))
    return found[0] if len(found) == 1 else None


def _hidden(scope: ast.AST, statement: ast.stmt) -> ast.expr | None:
    """What a statement resets without recording."""
    tensor = _written(statement)
    if isinstance(tensor, ast.Attribute) and tensor.attr == "data":
        return tensor.value
    blocks = [n for n in ast.walk(scope) if isinstance(n, ast.With) and statement in n.body]
    entered = [i.context_expr for b in blocks for i in b.items]
    quiet = any(isinstance(c, ast.Call) and last_word(c.func) in ("no_grad", "inference_mode") for c in entered)
    return tensor if quiet else None


def _written(statement: ast.stmt) -> ast.expr | None:
    """The tensor that a statement gives new numbers as a whole; None where it does nothing of the kind."""
    if isinstance(statement, ast.AugAssign):
        return _whole(statement.target) if _times_zero(statement) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return _whole(target) if isinstance(target, ast.Subscript) and _whole(target) is not target else None
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not (last_word(call.func) in _FILLING or _times_zero(statement)):
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is not None and last_word(owner) not in _LIBRARY:
        return _whole(owner)
    return _whole(call.args[0]) if call.args else None


def _whole(node: ast.expr) -> ast.expr | None:
    """A tensor, also as ``h[:]`` or ``h[...]``; None for what has no name or is a part."""
    if isinstance(node, ast.Subscript):
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        every = [isinstance(k, ast.Slice) and not (k.lower or k.upper or k.step) for k in keys]
        dots = [isinstance(k, ast.Constant) and k.value is ... for k in keys]
        if all(a or b for a, b in zip(every, dots, strict=True)):
            node = node.value
    return node if is_path(node) else None


def _times_zero(statement: ast.stmt) -> bool:
    """Whether it is ``h *= 0`` or ``h.mul_(0)``."""
    if isinstance(statement, ast.AugAssign):
        value: ast.expr | None = statement.value if isinstance(statement.op, ast.Mult) else None
    else:
        call = statement.value if isinstance(statement, ast.Expr) else None
        multiplies = call.args if isinstance(call, ast.Call) and last_word(call.func) == "mul_" else []
        value = multiplies[0] if len(multiplies) == 1 else None
    return isinstance(value, ast.Constant) and value.value == 0 and not isinstance(value.value, bool)
