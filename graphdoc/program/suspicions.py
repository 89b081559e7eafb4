"""Whether what a run that went on has shown is worth a second, slower look: asked of the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import Sign, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.exception import warned
from graphdoc.program.library_calls import reentrant_calls
from graphdoc.program.spans import innermost_user
from graphdoc.program.written_out import written_out
from graphdoc.source.module import each, has, is_method_call, is_within, keyword
from graphdoc.source.paths import (
    called,
    detached,
    is_attribute,
    is_constant,
    is_name,
    is_read,
    is_set,
    pairs,
    path_of,
    plain_names,
    without_subscripts,
)
from graphdoc.source.scopes import own_nodes

_ENDS = ("detach", "detach_", "no_grad", "item", "tolist", "numpy")
_NUMBERS = ("item", "tolist")
_ARRAYS = ("tolist", "numpy")
_TERM_ENDS = ("detach", "no_grad", "argmax", "argmin", "round", "sign", "floor", "ceil", "histc", "bincount")
_WITH_A_PATH = ("Normal", "LogNormal", "MultivariateNormal", "Laplace", "Gamma", "Beta", "Dirichlet", "StudentT")
_MAKERS = ("tensor", "as_tensor", "FloatTensor", "Variable")
FULL = ("full", "full_like", "new_full")
"""Functions that fill a tensor with one number, of which they take no graph."""


def suspicious(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether the program loses a graph somewhere in a way that could explain a sign of this run."""
    kinds = {s.kind for s in signs}
    if "suspect-term" in kinds and any(_adds_a_value(sources, s) for s in signs if s.kind == "suspect-term"):
        return any(_loses(node) for node in _nodes(sources))
    if "suspect-unused" in kinds:
        return any(_cuts(node) for node in _nodes(sources))
    if "suspect-hungry" in kinds:
        return any(_is_called(node, _ENDS) for node in _nodes(sources))
    if "suspect-part" in kinds and all(s.weak for s in signs) and _draws_with_a_path(sources):
        return True
    return "suspect-unreached" in kinds and any(_makes_leaf(node) or _draws(node) for node in _nodes(sources))


def may_be_constant(sources: SourceTexts, signs: list[Sign]) -> bool:
    """The same by what is everyday elsewhere: a term that is detached or decided, features as a list of numbers."""
    kinds = {s.kind for s in signs}
    if any(_adds_a_value(sources, s) for s in signs if s.kind == "suspect-term"):
        return any(_is_called(node, _TERM_ENDS) for node in _nodes(sources))
    return "suspect-unreached" in kinds and any(_is_called(node, _ARRAYS) for node in _nodes(sources))


def adds_from_arrays(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether a term of the loss may be computed by NumPy or from a list of numbers, where no operation of torch is
    seen: that is measured."""
    kinds = {s.kind for s in signs}
    added = "suspect-term" in kinds and "suspect-hungry" not in kinds
    return added and any(_is_called(node, _ARRAYS) for node in _nodes(sources))


def rebuilds(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether tensors are made of numbers that may have come out of a graph and go on in it: that is measured."""
    kinds = {"suspect-term", "suspect-part", "suspect-zero", "suspect-unreached"}
    return not kinds.isdisjoint(s.kind for s in signs) and any(_rebuilds(node) for node in _nodes(sources))


def left_unrecorded(sources: SourceTexts, warnings: list[str], signs: list[Sign]) -> bool:
    """Whether parameters without gradient may stand in blocks that a reentrant checkpoint ran without recording: none
    of the inputs required gradients. PyTorch warns of that, and a filter may have swallowed the warning."""
    said = warned(warnings, "checkpoint-no-input-grad") or bool(reentrant_calls(sources))
    return said and any(s.kind == "suspect-unreached" for s in signs)


def goes_around(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether parameters without gradient may enter the loss in the detached part of a straight-through sum alone."""
    return any(s.kind == "suspect-unreached" for s in signs) and _has_an_estimator(sources)


def passes_by_a_sum(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether a term that misses parameters may take what a decision looks up, and no straight-through sum of it."""
    part = any(s.kind == "suspect-part" for s in signs) and all(s.weak for s in signs)
    return part and _has_an_estimator(sources)


def _has_an_estimator(sources: SourceTexts) -> bool:
    sums = ((file, n) for file, n in bindings.everywhere(sources, ast.BinOp) if isinstance(n.op, ast.Add))
    return any(_is_estimator(written_out(sources, bindings.frame_of(sources, file, n), n)) for file, n in sums)


def writes_through_data(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether parameters moved before a backward call with no version telling, and not only by what the program writes
    to ``.data`` right behind a step, where clipping weights and their like belong, or by steps of its own making where
    these do not stand above a backward call."""
    seen = [s for s in signs if s.kind == "suspect-write"]
    if not seen:
        return False
    found = [(file, node) for file, node in bindings.everywhere(sources) if _writes_data(node)]
    every = [(_calls_around(sources, seen, file, _line(node)), node) for file, node in found]
    writes = [(calls, n) for calls, n in every if not _uses_gradient(n) or _is_before_the_first_backward(calls, n)]
    return not every or any(not _is_behind_a_step(calls, node) for calls, node in writes)


def _calls_around(sources: SourceTexts, seen: list[Sign], file: str, line: int) -> list[tuple[int, str]]:
    """The lines of the function around a line at which the run has called backward or made a step, by whatever name;
    further what the source calls so, and steps by hand."""
    root = bindings.tree(sources, file)
    scope = bindings.scope_around(root, line)
    made = ((f, kind) for s in seen for kind, stack in (("backward", s.stack), ("step", s.other)) for f in stack)
    calls = {(f.line, kind) for f, kind in made if f.file == file and bindings.scope_around(root, f.line) is scope}
    own = own_nodes(scope)
    calls |= {(_line(n), "step") for n in own if _writes_data(n) and _uses_gradient(n)}
    calls |= {(_line(n), n.func.attr) for n in own if is_method_call(n, "step", "backward")}
    return sorted(calls)


def _writes_data(node: ast.AST) -> bool:
    """``p.data.copy_(x)``, ``p.data[0] = x``, ``p.data += x``, ``p.data = x``."""
    match node:
        case ast.AugAssign(target=target) | ast.Call(func=ast.Attribute(value=target)):
            in_place = not is_method_call(node) or node.func.attr.endswith("_")
            written = [target] if in_place else []
        case ast.Assign():
            written = [t for t, _ in pairs(node)]
        case _:
            written = []
    return any(is_attribute(without_subscripts(w), "data") for w in written)


def _uses_gradient(node: ast.AST) -> bool:
    """``p.data -= rate * p.grad``, which belongs behind the backward call as a step does."""
    return any(n.attr == "grad" for n in each(node, ast.Attribute))


def _is_before_the_first_backward(calls: list[tuple[int, str]], node: ast.AST) -> bool:
    """Whether the backward calls of a function all stand below: the gradient is that of the round before, and a forward
    of this one may have been made already."""
    lines = [line for line, kind in calls if kind == "backward"]
    return bool(lines) and min(lines) > _line(node)


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _is_behind_a_step(calls: list[tuple[int, str]], node: ast.AST) -> bool:
    """Whether the nearest call of ``step`` or ``backward`` above, in the same function, is a step, or one by hand."""
    above = [kind for line, kind in calls if line < _line(node)]
    return above[-1:] == ["step"]


def _nodes(sources: SourceTexts) -> Iterator[ast.AST]:
    return (node for _, node in bindings.everywhere(sources))


def _adds_a_value(sources: SourceTexts, sign: Sign) -> bool:
    """Whether both sides of the addition are more than plain numbers, as far as the source tells."""
    frame = innermost_user(sign.stack)
    scope, spot = bindings.scope_at(sources, frame), (frame.line, frame.column) if frame is not None else None
    every = each(bindings.tree_at(sources, frame), ast.expr, ast.stmt)
    for node in (n for n in every if (n.lineno, n.col_offset + 1) == spot):
        if isinstance(node, ast.BinOp | ast.AugAssign):
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
            return bool(sign.facts.get("several")) or not any(_is_number(side, scope, node) for side in sides)
        if isinstance(node, ast.Call) and bindings.text_of(node.func) == "sum":
            return True
        if isinstance(node, ast.Subscript) and is_set(node):
            given = (v for n in each(scope, ast.Assign) for t, v in pairs(n) if t is node)
            return not any(_is_number(value, scope, node) for value in given)
    return False


def _is_number(node: ast.expr, scope: ast.AST, addition: ast.AST) -> bool:
    """Whether one side of an addition is a plain number, as far as the source tells.

    A name that begins as a number and has values added is one where the first of them is added, and a value behind.
    """
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand, scope, addition)
    if not isinstance(node, ast.Name):
        return isinstance(node, ast.Constant)
    given = [n for n in each(scope, ast.Assign) if any(is_name(t, node.id) for t in n.targets)]
    starts = [n for n in given if isinstance(n.value, ast.Constant)]
    added = (n for n in each(scope, ast.AugAssign) if is_name(n.target, node.id))
    adds = [n for n in added if not isinstance(n.value, ast.Constant)]
    on = [n for n in given if node.id in bindings.names_in(n.value)]
    first = min([*adds, *on], key=_line, default=None)
    anew = len(starts) + len(on) < len(given)  # it is given another value
    return bool(starts) and not anew and (first is None or is_within(addition, first))


def _loses(node: ast.AST) -> bool:
    """``x.data`` that is no gradient's and is read, ``torch.tensor(x)`` of a name, a gradient without a graph."""
    if is_attribute(node, "data") and is_read(node):
        return not bindings.text_of(node.value).endswith(".grad")
    if not isinstance(node, ast.Call):
        return False
    if path_of(node.func).endswith("autograd.grad"):
        return keyword(node, "create_graph") is None
    made = called(node) in _MAKERS and any(isinstance(a, ast.Name | ast.ListComp | ast.List) for a in node.args[:1])
    return made or (is_method_call(node, *_NUMBERS) and all(isinstance(a, ast.Starred) for a in node.args))


def _rebuilds(node: ast.AST) -> bool:
    """``torch.tensor([x, y / 2])``, ``torch.full_like(x, float(y))``."""
    given = node.args if isinstance(node, ast.Call) and called(node) in (*_MAKERS, *FULL) else []
    return any(map(plain_names, given))


def _cuts(node: ast.AST) -> bool:
    """Anything that ends a graph: asked only where a loss passes by the optimizer that steps for it."""
    return _is_called(node, _ENDS) or _loses(node) or _makes_leaf(node)


def _is_called(node: ast.AST, names: tuple[str, ...]) -> bool:
    return called(node) in names


def _makes_leaf(node: ast.AST) -> bool:
    """``torch.tensor(model(x)…, requires_grad=True)``, ``torch.tensor(losses, requires_grad=True)``, and a value that
    is cut off and let require gradients: ``model(x).detach().requires_grad_()``."""
    if not isinstance(node, ast.Call):
        return False
    if called(node) == "requires_grad_":
        return any(n.attr in ("detach", "data") for n in each(node.func, ast.Attribute))
    flagged = called(node) in _MAKERS and is_constant(keyword(node, "requires_grad"), True)
    # The whole of it kept under a name may be what a network has computed.
    return flagged and any(isinstance(a, ast.Name | ast.Attribute) or has(a, ast.Call) for a in node.args[:1])


def _draws(node: ast.AST) -> bool:
    """``distribution.sample()``, which gives numbers without a graph; a memory is told how many to draw."""
    return is_method_call(node, "sample") and not node.args and not node.keywords


def _draws_with_a_path(sources: SourceTexts) -> bool:
    """Whether ``sample()`` is called, and a distribution is made that has ``rsample``: others give decisions."""
    made = any(_is_called(node, _WITH_A_PATH) for node in _nodes(sources))
    return made and any(_draws(node) for node in _nodes(sources))


def _is_estimator(node: ast.AST) -> bool:
    """``x + (z - x).detach()``: the value of one, the gradient of the other."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = ((kept, detached(cut)) for kept, cut in ((left, right), (right, left)))
            differences = ((kept, d) for kept, d in parts if isinstance(d, ast.BinOp) and isinstance(d.op, ast.Sub))
            return any(ast.unparse(d.right) == ast.unparse(kept) for kept, d in differences)
    return False
