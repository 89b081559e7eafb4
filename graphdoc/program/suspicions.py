"""Whether what a run that went on has shown is worth a second, slower look: asked of the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import Sign, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import innermost_user
from graphdoc.source.expressions import FULL
from graphdoc.source.module import each, is_method_call, is_within
from graphdoc.source.paths import (
    called,
    is_attribute,
    is_name,
    is_set,
    last_word,
    pairs,
    plain_names,
    without_subscripts,
    words,
)
from graphdoc.source.scopes import own_nodes

_DECIDES = words("numpy tolist sample multinomial argmax argmin long int round sign floor ceil histc bincount")
"""Names of what ends a graph, or a gradient, by the way."""
_SAYS = words("detach detach_ data no_grad item requires_grad_")
"""Those by which an author says so."""
_MAKERS = words("tensor as_tensor FloatTensor Variable")
"""What is given values, and takes none of their graph."""


def may_be_cut(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether a graph may end somewhere in the program in a way that could explain a sign of this run."""
    if any(_adds_a_value(sources, s) for s in signs if s.kind == "suspect-term"):
        return True
    kinds = {s.kind for s in signs}
    said = bool(kinds & {"suspect-unused", "suspect-hungry"})  # nothing is learnt there, whatever was meant
    ends = _DECIDES | _SAYS if said else _DECIDES
    return (said or "suspect-part" in kinds) and any(_ends(node, ends) for node in _nodes(sources))


def _ends(node: ast.AST, named: frozenset[str]) -> bool:
    """Whether an expression ends a graph, by its name or as ``torch.tensor([x, y / 2])``."""
    name = node.attr if isinstance(node, ast.Attribute) else called(node)
    given = node.args if isinstance(node, ast.Call) and called(node) in _MAKERS | FULL else []
    return name in named or any(map(plain_names, given))


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
    if frame is None:
        return False
    scope, every = bindings.scope_at(sources, frame), each(bindings.tree_at(sources, frame), ast.expr, ast.stmt)
    begun = [n for n in every if (n.lineno, n.col_offset + 1) == (frame.line, frame.column)]
    # `1 + a - b` begins where `1 + a` does.
    exact = [n for n in begun if (n.end_lineno, n.end_col_offset) == (frame.end_line, frame.end_column - 1)]
    for node in exact or begun:
        if isinstance(node, ast.BinOp | ast.AugAssign):
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
            return bool(sign.facts.get("several")) or not any(_is_number(side, scope, node) for side in sides)
        if isinstance(node, ast.Call) and last_word(node.func) in ("sum", "add", "add_"):
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
