"""What a write in place puts into its tensor: numbers, or a result that parameters are to learn through."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.tensors import Reached
from graphdoc.source.loop_variables import iterated
from graphdoc.source.paths import covers, last_word

_BEGUN = frozenset({"tensor", "zeros", "ones", "full", "scalar_tensor", "zeros_like", "ones_like", "full_like"})
_PASSED_ON = frozenset({"to", "cuda", "cpu", "float", "double", "requires_grad_", "type", "Variable", "Parameter"})
_NUMBERS = frozenset({"detach", "item", "tolist", "numpy"})
_ENDS = frozenset({"data", "grad", "shape", "dtype", "device"})


def learns_through(sources: SourceTexts, frame: Frame, name: str, tensors: tuple[Reached, ...]) -> bool:
    """Whether what is written has a graph of its own, so that recording is what the write asks for.

    Either an operation is known to have made something that the value reads, or the tensor is a sum begun from a
    constant in this function and nothing shows that the value is only numbers: ``loss = torch.tensor(0.0, …)`` and
    ``loss += norm(p)``.
    """
    value = _value(sources, frame)
    if value is None or not name:
        return False
    known = {t.path: t for t in reversed(tensors) if t.function == frame.function}
    read = [r for r in _read(value) if r != name]
    if any(r in known and known[r].requires_grad and not known[r].is_leaf for r in read):
        return True
    nests = tuple(f"{_walked(sources, frame, r)}[" for r in read if r not in known)
    if nests and any(p.startswith(nests) and t.requires_grad and not t.is_leaf for p, t in known.items()):
        return True  # an entry of a list or a dictionary whose entries have graphs, a gradient of a recorded derivative
    numbers = all(r in known and not known[r].requires_grad for r in read)
    return not numbers and _is_sum(sources, frame, name)


def _walked(sources: SourceTexts, frame: Frame, name: str) -> str:
    """What a loop around the place runs over to give a name its value; the name itself where none does."""
    root = bindings.tree(sources, frame.file)
    loops = [n for n in ast.walk(root) if isinstance(n, ast.For) and covers(n, frame.line)] if root is not None else []
    found = [bindings.dotted(over) for n in reversed(loops) if (over := iterated(n.target, n.iter, name)) is not None]
    return next((path for path in found if path), name)


def _value(sources: SourceTexts, frame: Frame) -> ast.expr | None:
    """The value of the assignment at a place, what ``x.add_(v)`` is given."""
    root = bindings.tree(sources, frame.file)
    for node in ast.walk(root) if root is not None else ():
        if not isinstance(node, ast.stmt) or node.lineno != frame.line:
            continue
        if isinstance(node, ast.Assign | ast.AugAssign):
            return node.value
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.value.args:
            return ast.Tuple(node.value.args, ast.Load())
    return None


def _read(value: ast.AST) -> list[str]:
    """The paths that a value is computed from; not those of which only numbers are taken."""
    if isinstance(value, ast.Call):
        of = value.func.value if isinstance(value.func, ast.Attribute) else None
        if last_word(value.func) in _NUMBERS:
            return []
        given = [*value.args, *(k.value for k in value.keywords)]
        return [r for part in (*given, *([of] if of is not None else ())) for r in _read(part)]
    if isinstance(value, ast.Name | ast.Attribute):
        path = bindings.dotted(value)
        words = path.split(".")
        return [] if not path or words[0] in _LIBRARIES or _ENDS & {*words[1:]} else [path]
    return [r for part in ast.iter_child_nodes(value) for r in _read(part)]


_LIBRARIES = frozenset({"torch", "math", "np", "numpy", "F", "nn"})


def _is_sum(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the function begins this name from a constant, and the statement adds to it."""
    root = bindings.tree(sources, frame.file)
    adds = any(
        isinstance(n, ast.AugAssign)
        and n.lineno == frame.line
        and isinstance(n.op, ast.Add | ast.Sub)
        and bindings.is_name(n.target, name)
        for n in (ast.walk(root) if root is not None else ())
    )
    return adds and any(_begins(value) for _, value in bindings.assignments(sources, frame, name))


def _begins(value: ast.expr) -> bool:
    while isinstance(value, ast.Call) and last_word(value.func) in _PASSED_ON:
        if isinstance(value.func, ast.Attribute) and not bindings.dotted(value.func).startswith(("torch.", "nn.")):
            value = value.func.value
        elif value.args:
            value = value.args[0]
        else:
            return False
    if not isinstance(value, ast.Call) or last_word(value.func) not in _BEGUN:
        return False
    return not any(isinstance(n, ast.Name) and n.id not in _LIBRARIES for a in value.args for n in ast.walk(a))
