"""What an expression gave, a tensor or a nest of them; statements that fill or cut a whole tensor in place.

Two witnesses: the paths by which the run's tensors are held (each step of a path names a class), and the source of the
function that was called. Where both are silent the answer is None: nothing is detached on a guess.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import eq, is_
from typing import Any

from graphdoc.evidence import Event, Evidence, Frame, Holder, Node, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.carried_names import Carried
from graphdoc.program.container_entries import kept_name, statements, statements_at
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import node_loop_of, user_line
from graphdoc.program.writers import target_of
from graphdoc.source.effects import calls_method
from graphdoc.source.expressions import FILLS, is_full
from graphdoc.source.module import each, is_method_call, receiver_of
from graphdoc.source.paths import (
    bare_call,
    called,
    covers,
    elements,
    is_attribute,
    is_name,
    is_path,
    key,
    last_word,
    only,
    pairs,
    path_of,
    sole_target,
    spelled,
)
from graphdoc.source.scopes import is_torchs, own_nodes

UNKNOWN = object()
"""Nothing is known of this path: not that it holds a tensor, and not that it holds something else."""

_PLAIN = frozenset(
    {"dict", "list", "set", "float", "int", "str", "bool", "len", "sorted", "zip", "map", "print", "item", "tolist"}
    | {"numpy", "deque", "defaultdict", "OrderedDict", "Counter", "enumerate", "range", "items", "values", "keys"}
)
_DEEPEST = 3
_NO_TENSOR = (
    *(ast.Constant, ast.Dict, ast.List, ast.Set, ast.Tuple, ast.ListComp, ast.SetComp, ast.DictComp),
    *(ast.GeneratorExp, ast.JoinedStr, ast.Compare, ast.Lambda),
)


def can_detach(program: Program, at: Frame) -> bool:
    """Whether ``x.detach()`` at this place can have run: the run has not seen ``x`` as a tuple alone."""
    call = bare_call(bindings.statement_at(program.sources, at))
    path = spelled(path_of(call.func.value)) if is_method_call(call) else ""
    name = getattr(bindings.scope_at(program.sources, at), "name", "<module>")
    here = [h for h in program.holders if h.file == at.file and h.function.rpartition(".")[2] == name]
    seen = [h.structure for h in here if path and spelled(h.base) == path]
    return not seen or "tensor" in seen


def known(program: Program, file: str, function: str, path: str) -> Any:
    """What the run saw at a path of names and attributes in a function that was under way: a structure (in the words
    of ``graphdoc.fixes.structures``), None for what is no tensor and no such nest, or ``UNKNOWN``."""
    wanted = spelled(path)
    found: Any = UNKNOWN
    for h in (h for h in program.holders if (h.file, h.function) == (file, function)):
        if wanted in (spelled(h.path), spelled(h.base)):
            return "tensor" if spelled(h.path) == wanted else h.structure
        if any(spelled(text) == wanted for text in _above(h)):
            found = None
    here = [spelled(t.path) for t in program.tensors if t.function == function]
    if found is UNKNOWN and wanted in here:
        return "tensor"
    return None if any(path.startswith((f"{wanted}.", f"{wanted}[")) for path in here) else found


def _above(holder: Holder) -> Iterator[str]:
    """The objects on the way to a held tensor, as Python text."""
    text = ""
    for step in takewhile(lambda s: s.kind != "cell", holder.steps[:-1]):
        entry = step.kind in ("index", "key")
        text += f"[{step.key}]" if entry else f".{step.key}" if text else step.key
        yield text


def value_at(program: Program, stack: Sequence[Frame], frame: Frame) -> Any:
    """The structure of what the expression at ``frame`` gave; None where it is no tensor or is not known.

    ``stack`` is the whole stack (outermost first) of the operation that ran below that expression.
    """
    node, owner = bindings.expression_at(program.sources, frame), bindings.statement_at(program.sources, frame)
    above = bindings.source_at(program.sources, frame).parents.get(node) if node is not None else None
    # What nobody keeps (a detached copy would be thrown away), what a loop runs over, one of several results.
    several = isinstance(above, ast.Subscript) and above.value is node and isinstance(node, ast.Call)
    if above is not None and (several or isinstance(above, ast.Expr) or getattr(above, "iter", None) is node):
        return None
    target = sole_target(owner) if above is owner else None
    seen = _assigned(program, stack, frame, target) if target is not None and target is not node else UNKNOWN
    return seen if seen is not UNKNOWN else _result(program.sources, stack, frame)


def named_value_at(program: Program, stack: Sequence[Frame], frame: Frame, name: str) -> Any:
    """The structure of what the statement at ``frame`` gave to one name: the value itself, or its part of a tuple."""
    names = elements(sole_target(bindings.statement_at(program.sources, frame)))
    if not names:
        return value_at(program, stack, frame)
    parts = zip(names, _parts(program, stack, frame, names), strict=True)
    return next((p for t, p in parts if key(t) == spelled(name)), UNKNOWN)


def _assigned(program: Program, stack: Sequence[Frame], frame: Frame, target: ast.expr) -> Any:
    """What the run saw under the name that an expression is assigned to."""
    if not isinstance(target, ast.Tuple | ast.List):
        return known(program, frame.file, frame.function, key(target))
    parts = _parts(program, stack, frame, target.elts)
    return {"tuple": parts} if parts and not any(p is UNKNOWN or p is None for p in parts) else None


def _parts(program: Program, stack: Sequence[Frame], frame: Frame, names: list[ast.expr]) -> list[Any]:
    """What each name of an unpacked tuple got: as the run saw it, or as the function that was called returns it."""
    seen = [known(program, frame.file, frame.function, key(t)) for t in names]
    told = _returned_parts(program.sources, stack, frame, len(seen)) if UNKNOWN in seen else seen
    return [t if s is UNKNOWN else s for s, t in zip(seen, told, strict=True)]


def _returned_parts(sources: SourceTexts, stack: Sequence[Frame], frame: Frame, count: int) -> list[Any]:
    """The parts of the tuple that the call at ``frame`` returned, by the source of the function that was called; a
    function that returns what another one returns, or took a part from it, is followed down the stack."""
    unknown = [UNKNOWN] * count
    start = next((i for i, f in enumerate(stack) if f is frame), len(stack))
    for f in stack[start + 1 :]:
        if not f.user:
            continue
        function = bindings.function_at(sources, f)
        inside = list(own_nodes(function)) if function is not None else []
        values = [n.value for n in inside if isinstance(n, ast.Return)]
        if len(values) == 1 and isinstance(values[0], ast.Call) and covers(values[0], f.line):
            continue
        tuples = [v for v in values if isinstance(v, ast.Tuple) and len(v.elts) == count]
        if not tuples or len(tuples) != len(values):
            return unknown
        return [
            "tensor" if all(_part_is_tensor(sources, stack, f, inside, t.elts[i]) for t in tuples) else UNKNOWN
            for i in range(count)
        ]
    return unknown


def _part_is_tensor(
    sources: SourceTexts, stack: Sequence[Frame], frame: Frame, inside: list[ast.AST], part: ast.expr
) -> bool:
    """Whether a part of a returned tuple is one tensor; of a name that was unpacked in its turn, the call tells."""
    given = ((n, [key(t) for t in elements(n.targets[0])]) for n in inside if isinstance(n, ast.Assign))
    unpacked = [(n, names) for n, names in given if key(part) in names]
    here = (names for n, names in unpacked if isinstance(n.value, ast.Call) and covers(n, frame.line))
    if (names := next(here, None)) is not None:
        return bool(_returned_parts(sources, stack, frame, len(names))[names.index(key(part))] == "tensor")
    return not unpacked and _may_be_tensor(sources, frame.file, inside, part, 0)  # else made elsewhere


def _result(sources: SourceTexts, stack: Sequence[Frame], frame: Frame) -> Any:
    """What the call below the frame returned: the frames behind it say what was called."""
    start = next((i for same in (is_, eq) for i, f in enumerate(stack) if same(f, frame)), len(stack))
    for f in stack[start + 1 :]:
        name = f.function.rpartition(".")[2]
        built = name == "__init__" and "distributions" not in f.file
        if f.user and not built:
            function = bindings.function_at(sources, f) if not name.startswith("<") else None
            gives = name == "<lambda>" or (function is not None and returns_tensor(sources, f.file, function))
            return "tensor" if gives else None
        recurrent = f.file.replace("\\", "/").endswith("torch/nn/modules/rnn.py")
        if built or (recurrent and not f.function.startswith(("GRUCell", "RNNCell"))):
            return None  # an object, or (output, state), or (h, c)
    return "tensor"


def returns_tensor(sources: SourceTexts, file: str, function: ast.AST, depth: int = 0) -> bool:
    """False where the source shows that a function gives something else than one tensor."""
    inside = list(own_nodes(function))
    values = [n.value for n in inside if isinstance(n, ast.Return)]
    every = all(v is not None and _may_be_tensor(sources, file, inside, v, depth) for v in values)
    return bool(values) and every and not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in inside)


def _may_be_tensor(sources: SourceTexts, file: str, inside: list[ast.AST], value: ast.expr, depth: int) -> bool:
    if isinstance(value, ast.Name):
        bound = [n.value for n in inside if isinstance(n, ast.Assign) and any(is_name(t, value.id) for t in n.targets)]
        # A start value such as `total = 0.0` is not what a sum of tensors ends as: the last binding counts.
        last = bound[-1:] if depth < _DEEPEST else []
        its = all(_may_be_tensor(sources, file, inside, v, depth + 1) for v in last)
        return value.id not in ("self", "cls") and its
    if isinstance(value, ast.IfExp):
        return all(_may_be_tensor(sources, file, inside, v, depth) for v in (value.body, value.orelse))
    if not isinstance(value, ast.Call):
        return not isinstance(value, _NO_TENSOR)
    own = isinstance(value.func, ast.Name) and depth < _DEEPEST
    named = [n for n in each(bindings.tree(sources, file), ast.FunctionDef) if own and n.name == called(value)]
    gives = len(named) != 1 or returns_tensor(sources, file, named[0], depth + 1)
    return called(value) not in _PLAIN and not builds_object(sources, value) and gives


def builds_object(sources: SourceTexts, value: ast.expr) -> bool:
    """Whether an expression is a call of a class of the user's program."""
    return called(value) in {n.name for _, n in bindings.everywhere(sources, ast.ClassDef)}


def in_training(events: list[Event], frame: Frame) -> bool:
    """Whether a backward call or an optimizer step ran inside the function of this frame."""
    return any(f.in_function_of(frame) for f in _training(events))


def _training(events: list[Event]) -> Iterator[Frame]:
    """The frames below which a backward call or an optimizer step was made."""
    return (f for e in events if e.kind in ("backward", "grad", "step") for f in e.stack)


def trains_below(sources: SourceTexts, events: list[Event], frame: Frame) -> bool:
    """Whether a backward call or an optimizer step ran below the statement of this frame."""
    owner = bindings.statement_at(sources, frame)
    first, last = (owner.lineno, owner.end_lineno or owner.lineno) if owner is not None else (frame.line, frame.line)
    return any(f.in_function_of(frame) and first <= f.line <= last for f in _training(events))


def calls_into(sources: SourceTexts, frames: Sequence[Frame], function: str) -> bool:
    """Whether the functions of these frames call, by name, the function with this (qualified) name."""
    return any(calls(bindings.function_at(sources, f), {function.rpartition(".")[2]}) for f in frames)


def calls(scope: ast.AST | None, names: Collection[str]) -> bool:
    """Whether a function, or the file outside of functions, calls anything by one of these last names."""
    own = statements(scope) if scope is not None else ()
    return any(called(n) in names for s in own for n in each(s, ast.Call))


# Statements that give a whole tensor new numbers in place: the graph behind what it held before stays with it.

_FILLING = FILLS | {"zeros_", "ones_", "constant_"}
_WRITES = ("Zero", "Fill", "torch::autograd::Copy", "Normal", "Uniform")


@dataclass(frozen=True)
class Reset:
    """A reset in place: its statement, the tensor as it is spelled there, and the node that autograd made of it.

    No node where it is written behind autograd's back (``.data``, ``no_grad``).
    """

    frame: Frame
    path: str
    node: Node | None = None


def resets_of(run: Evidence, carries: list[Carried], failing: Event | None) -> list[Reset]:
    """The resets by which all of the older values come into the failing graph; empty where one comes another way."""
    found = [_recorded(run.sources, c.taken) for c in carries]
    unrecorded = _unrecorded(run.sources, failing) if None in found else []
    for i, carry in enumerate(carries):
        names = {kept_name(h) for h in carry.holders} - {""}
        found[i] = found[i] or only([reset for name, reset in unrecorded if name in names])
    resets = [r for r in found if r is not None]
    every = {(r.frame.start, r.path): r for r in resets}
    return list(every.values()) if len(resets) == len(carries) else []


def _recorded(sources: SourceTexts, taking: Node | None) -> Reset | None:
    """The reset that a node stands for."""
    frame = user_line(taking)
    if taking is None or frame is None:
        return None
    for s in statements_at(sources, frame)[-1:]:
        tensor = _written(bindings.tree_at(sources, frame), s)
        times_zero = taking.op.startswith("Mul") and _times_zero(s)
        if tensor is not None and (times_zero or (taking.op.startswith(_WRITES) and not _times_zero(s))):
            return Reset(bindings.frame_of(sources, frame, s), ast.unparse(tensor), taking)
    return None


def _unrecorded(sources: SourceTexts, failing: Event | None) -> list[tuple[str, Reset]]:
    """The statements that reset something, through ``.data`` or under ``no_grad``, in each round of a loop around the
    call: they stand there, or in a function that is called there. Each with the name of what it resets."""
    loops = [(f, node_loop_of(sources, f)) for f in failing.stack if f.user] if failing is not None else []
    around = [(f.file, loop) for f, loop in loops if loop is not None]
    called_there = {called(n) for _, loop in around for n in each(loop, ast.Call)}
    found = []
    for file, scope in bindings.everywhere(sources, ast.Module, ast.FunctionDef):
        name = getattr(scope, "name", "<module>")
        for s in statements(scope):
            tensor = _hidden(bindings.tree(sources, file), scope, s)
            inside = any(file == f and covers(loop, s.lineno) for f, loop in around)
            if tensor is not None and (inside or name in called_there):
                found.append((last_word(tensor), Reset(bindings.frame_of(sources, file, s, name), ast.unparse(tensor))))
    return found


def _hidden(tree: ast.Module, scope: ast.AST, statement: ast.stmt) -> ast.expr | None:
    """What a statement resets without recording."""
    tensor = _written(tree, statement)
    if is_attribute(tensor, "data"):
        return tensor.value
    entered = [i.context_expr for n in each(scope, ast.With) if tensor and statement in n.body for i in n.items]
    return tensor if {"no_grad", "inference_mode"} & set(map(called, entered)) else None


def _written(tree: ast.Module, statement: ast.stmt) -> ast.expr | None:
    """The tensor that a statement gives new numbers as a whole; None where it does nothing of the kind."""
    if isinstance(statement, ast.AugAssign):
        return _whole(statement.target) if _times_zero(statement) else None
    target, call = sole_target(statement), bare_call(statement)
    if isinstance(target, ast.Subscript):
        return _whole(target) if _whole(target) is not target else None
    if call is None or not (called(call) in _FILLING or _times_zero(statement)):
        return None
    owner = receiver_of(call)
    written = next(iter(call.args), None) if owner is None or is_torchs(tree, owner) else owner
    return _whole(written) if written is not None else None


def _whole(node: ast.expr) -> ast.expr | None:
    """A tensor, also as ``h[:]`` or ``h[...]``; None for what has no name or is a part."""
    if isinstance(node, ast.Subscript):
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        node = node.value if all(map(is_full, keys)) else node
    return node if is_path(node) else None


def _times_zero(statement: ast.stmt) -> bool:
    """Whether it is ``h *= 0`` or ``h.mul_(0)``."""
    if isinstance(statement, ast.AugAssign):
        value: ast.expr | None = statement.value if isinstance(statement.op, ast.Mult) else None
    else:
        call = bare_call(statement)
        value = only(call.args if call is not None and called(call) == "mul_" else [])
    return isinstance(value, ast.Constant) and value.value == 0 and not isinstance(value.value, bool)


# Where a value can be cut behind an optimizer's step: the place in its block, and what starts it again there.


def behind_the_step(sources: SourceTexts, events: list[Event], frame: Frame) -> tuple[Frame, Frame]:
    """The statement of this function behind which an iteration's graph has done its work, and the line of the step.

    The last optimizer step that this function makes after the backward call at ``frame``, else the call itself. The
    journal tells where steps were made; where none was seen yet, the source does. The two differ where the step stands
    inside a branch.
    """
    source, own = bindings.source_at(sources, frame), bindings.statement_at(sources, frame)
    above = source.node_ancestors(own) if own is not None else ()
    branches = takewhile(lambda n: isinstance(n, ast.With | ast.If | ast.Try), above)
    outer = [n for n in (own, *branches) if isinstance(n, ast.stmt)][-1:]
    block, at = (source.node_block(outer[0]) if outer else None) or ([], 0)
    steps = [f for e in events if e.kind == "step" for f in e.stack]
    lines = {f.line for f in steps if f.user and f.in_function_of(frame)}
    below = block[at + 1 :]
    chosen = [s for s in below if any(covers(s, n) for n in lines)] or [s for s in below if calls_method(s, "step")]
    if not chosen:
        return frame, frame
    anchor = bindings.frame_of(sources, frame, chosen[-1])
    inside = [n for n in each(chosen[-1], ast.stmt) if not isinstance(n, ast.If | ast.With)]
    made = [n for n in inside if n.lineno in lines] or [n for n in inside if calls_method(n, "step")]
    return anchor, bindings.frame_of(sources, frame, made[-1]) if made else anchor


def started_again(sources: SourceTexts, frame: Frame, anchor: Frame, path: str) -> bool:
    """Whether a path may hold a plain start value (``total = 0.0``, ``h = None``) behind the statement at ``anchor``.

    Looked for from the statement at ``frame`` to the end of the anchor, and in the branches on the way.
    """
    last = anchor.end_line or anchor.line
    behind = (s for s in statements(bindings.scope_at(sources, frame)) if frame.line < s.lineno <= last)
    given = (value for s in behind for target, value in pairs(s) if key(target) == path)
    return any(isinstance(value, ast.Constant | ast.List | ast.Dict) for value in given)


# A function that writes what has a graph into a tensor that it was given, and gives it back: its caller keeps both.


def written_into_given(program: Program, reuse: Reuse) -> list[Frame]:
    """The statements (``coord += shift`` of an argument) that made all of the carried values, each once; none where one
    was made otherwise, or where a caller drops what its function gives back: it wants the write alone."""
    found: dict[tuple[str, int, int], Frame] = {}
    for carry in reuse.carries:
        frame = user_line(carry.made)
        if frame is None:
            return []
        target = target_of(program.evidence, frame)
        callers = [f for f in carry.making if not f.in_function_of(frame)]
        if not target.parameter or target.local or target.sliced or not target.whole or not callers:
            return []
        if isinstance(bindings.statement_at(program.sources, callers[0]), ast.Expr | None):
            return []
        found.setdefault(frame.start, frame)
    return list(found.values())
