"""What a leaf is for that the program writes in place: a gradient of its own, or to be filled with what has a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.value_reads import read_behind
from graphdoc.source.displays import is_container
from graphdoc.source.module import Loop, Source
from graphdoc.source.paths import covers, key, last_word, targets_of, without_subscripts
from graphdoc.source.places import Place

_FILLS = frozenset(
    {"zero_", "fill_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_"}
    | {"geometric_", "log_normal_"}
)
_RECKONS = frozenset({"add_", "sub_", "mul_", "div_", "addcmul_", "addcdiv_", "subtract_", "multiply_", "divide_"})
_WRAPPERS = frozenset({"Variable", "to", "cuda", "cpu", "float", "double", "type"})


def entry_written(sources: SourceTexts, frame: Frame) -> str:
    """The entry of a list or a dictionary that the statement writes into: ``s[t + 1]`` of ``s[t + 1][:, 0] = v``; empty
    where it writes into no such thing."""
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    if owner is None:
        return ""
    value = owner.value if isinstance(owner, ast.Expr) else None
    written: list[ast.expr] = list(targets_of(owner))
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        written = [value.func.value]
    for node in written:
        while isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                break  # the path as it is written names it
            if is_container(source, node.value):
                return key(node)
            node = node.value
    return ""


def entry_added_to(sources: SourceTexts, frame: Frame) -> str:
    """The entry that the addition itself of ``state[key] += v`` was refused on: a list's or a dictionary's.

    An item of a tensor would be a view, or a copy that may be added to and is refused where it is stored: the place is
    then that of the item alone (Python's ``BINARY_OP`` has the place of the statement, ``STORE_SUBSCR`` that of its
    target).
    """
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    if not isinstance(owner, ast.AugAssign) or not isinstance(owner.target, ast.Subscript):
        return ""
    at = bindings.frame_of(sources, frame.file, owner, frame.function)
    return key(owner.target) if at.extent == frame.extent else ""


def gradient_asked(sources: SourceTexts, frame: Frame, path: str) -> list[int]:
    """The lines at which the program takes the gradient of this very tensor: ``x.grad``, ``autograd.grad(loss, x)``,
    ``backward(inputs=[x])``. Of a plain name those of its own function; of an attribute those of the file."""
    root = bindings.tree(sources, frame.file)
    if root is None or not path:
        return []
    scope: ast.AST = root if "." in path else bindings.function_around(root, frame.line) or root
    return sorted({n.lineno for n in ast.walk(scope) if isinstance(n, ast.expr) and _asks(n, path.partition("[")[0])})


def is_update_of_its_own(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether a leaf whose gradient is taken is moved, or begun, by the write: behind the gradient, in a loop with it,
    or by a method that gives it new numbers as a whole. A value that leads to the gradient is another thing."""
    asked = gradient_asked(sources, frame, path)
    if not asked:
        return False
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    if owner is None:
        return False
    value = owner.value if isinstance(owner, ast.Expr) else None
    if isinstance(value, ast.Call) and last_word(value.func) in _FILLS:
        return True
    loops = [a for a in source.node_ancestors(owner) if isinstance(a, Loop)]
    return min(asked) <= owner.lineno or any(covers(loop, line) for loop in loops for line in asked)


def goes_on_with_it(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether a function computes on with a plain name of its own that it has written by an operator: ``x /= scale`` of
    an argument, and then what it returns."""
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    if not isinstance(owner, ast.AugAssign) or not path.isidentifier() or source.node_function(owner) is None:
        return False
    return read_behind(sources, frame, path)


def is_for_its_effect(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether a function writes into a plain name of its own (``gate = bias[4:8]``; ``gate += 1``), and nothing reads
    it any more: the write is there for whom else it changes."""
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    function = source.node_function(owner) if owner is not None else None
    if owner is None or function is None or not path.isidentifier() or isinstance(owner, ast.Return):
        return False
    if any(isinstance(n, ast.Global | ast.Nonlocal) and path in n.names for n in ast.walk(function)):
        return False
    named = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == path]
    own = {id(n) for n in ast.walk(owner)}
    reads = [n.lineno for n in named if isinstance(n.ctx, ast.Load) and id(n) not in own]
    last = max((f.line for f, _ in bindings.assignments(sources, frame, path) if f.line < owner.lineno), default=0)
    # Bound outside of a loop around it, the name is read again by the next round.
    loops = [a for a in source.node_ancestors(owner) if isinstance(a, ast.For | ast.While) and a.lineno > last]
    return not any(line >= owner.lineno or any(covers(loop, line) for loop in loops) for line in reads)


def is_reckoned(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the write takes what is there and adds, takes off, multiplies or divides: no new numbers, no bounds."""
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    value = owner.value if isinstance(owner, ast.Expr) else None
    return isinstance(owner, ast.AugAssign) or (isinstance(value, ast.Call) and last_word(value.func) in _RECKONS)


def flags_of(sources: SourceTexts, frame: Frame, path: str) -> list[Frame]:
    """The calls with ``requires_grad=True`` that made a tensor, or the entries of the container that it is in; none
    where one of them was made in another way, or is a parameter, which takes the flag of its own accord."""
    base = path.partition("[")[0]
    made = [value for _, value in bindings.assignments(sources, frame, base)]
    if base != path:
        made = [v for value in made for v in _entries(value)]
        made += list(_put(sources, frame, base))
    calls = [_flagged(value) for value in made]
    return [bindings.frame_of(sources, frame.file, c) for c in calls if c is not None] if all(calls) else []


def _asks(node: ast.expr, base: str) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return _is(node.value, base)
    if not isinstance(node, ast.Call):
        return False
    given: list[ast.expr | None] = [k.value for k in node.keywords if k.arg == "inputs"]
    if last_word(node.func) == "grad":
        given.append(bindings.argument(node, 1, "inputs"))
    return any(isinstance(n, ast.expr) and _is(n, base) for g in given if g is not None for n in ast.walk(g))


def _is(node: ast.expr, base: str) -> bool:
    return bindings.text_of(without_subscripts(node)) == base


def _entries(value: ast.expr) -> list[ast.expr]:
    """What a list or dictionary that is written out begins with."""
    if isinstance(value, ast.List):
        return value.elts
    if isinstance(value, ast.ListComp):
        return [value.elt]
    if isinstance(value, ast.Dict):
        return value.values
    if isinstance(value, ast.DictComp):
        return [value.value]
    return []


def _put(sources: SourceTexts, frame: Frame, base: str) -> Iterator[ast.expr]:
    """What the function puts into a container: ``s[t] = v``, ``s.append(v)``."""
    root = bindings.tree(sources, frame.file)
    scope = bindings.function_around(root, frame.line) or root if root is not None else None
    for node in ast.walk(scope) if scope is not None else ():
        if isinstance(node, ast.Assign) and node.lineno != frame.line:
            if any(isinstance(t, ast.Subscript) and bindings.text_of(t.value) == base for t in node.targets):
                yield node.value
        elif isinstance(node, ast.Call) and bindings.text_of(node.func) == f"{base}.append" and node.args:
            yield node.args[0]


def _flagged(value: ast.expr) -> ast.Call | None:
    """The call in an expression that makes a leaf with the flag; not a parameter."""
    while isinstance(value, ast.Call):
        if any(k.arg == "requires_grad" and getattr(k.value, "value", None) is True for k in value.keywords):
            return value if last_word(value.func) != "Parameter" else None
        inner = value.func.value if isinstance(value.func, ast.Attribute) else None
        if last_word(value.func) == "requires_grad_" and not value.args and not value.keywords:
            return value
        if last_word(value.func) not in _WRAPPERS:
            return None
        value = value.args[0] if inner is None or (isinstance(inner, ast.Name) and value.args) else inner
    return None


def leads_to(path: str, name: str) -> bool:
    """Whether a path of the program may be that of a parameter: but for the name of the object that it starts from,
    and for what indexes a container, its steps are the last ones of the parameter's."""
    steps = [s for part in path.split(".") for s in (part.partition("[")[0], *(["*"] * part.count("[")))]
    known = name.split(".")
    if len(steps) > 1 and steps != known:
        steps = steps[1:]
    ends = known[-len(steps) :]
    return bool(path) and len(ends) == len(steps) and all(s in ("*", k) for s, k in zip(steps, ends, strict=True))
