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
from graphdoc.program.in_place_writes import target_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import node_loop_of, user_line
from graphdoc.source.effects import calls_method
from graphdoc.source.expressions import is_full
from graphdoc.source.module import each, is_method_call, receiver_of
from graphdoc.source.paths import bare_call, covers, is_name, is_path, key, last_word, only, pairs, spelled
from graphdoc.source.scopes import own_nodes

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
    if not is_method_call(call):
        return True
    path = spelled(bindings.dotted(call.func.value))
    name = getattr(bindings.scope_at(program.sources, at), "name", "<module>")
    here = [h for h in program.holders if h.file == at.file and h.function.rpartition(".")[2] == name]
    seen = [h.structure for h in here if spelled(h.base) == path]
    return not seen or "tensor" in seen


def known(program: Program, file: str, function: str, path: str) -> Any:
    """What the run saw at a path of names and attributes in a function that was under way: a structure (in the words
    of ``graphdoc.fixes.structures``), None for what is no tensor and no such nest, or ``UNKNOWN``."""
    wanted = spelled(path)
    found: Any = UNKNOWN
    for h in program.holders:
        if (h.file, h.function) != (file, function):
            continue
        if spelled(h.path) == wanted:
            return "tensor"
        if spelled(h.base) == wanted:
            return h.structure
        if any(spelled(text) == wanted for text in _above(h)):
            found = None
    if found is not UNKNOWN:
        return found
    here = [spelled(t.path) for t in program.tensors if t.function == function]
    if wanted in here:
        return "tensor"
    return None if any(path.startswith((f"{wanted}.", f"{wanted}[")) for path in here) else UNKNOWN


def _above(holder: Holder) -> Iterator[str]:
    """The objects on the way to a held tensor, as Python text."""
    text = ""
    for step in holder.steps[:-1]:
        if step.kind in ("index", "key"):
            text += f"[{step.key}]"
        elif step.kind in ("name", "attribute", "field"):
            text += f".{step.key}" if text else step.key
        else:
            return
        yield text


def value_at(program: Program, stack: Sequence[Frame], frame: Frame) -> Any:
    """The structure of what the expression at ``frame`` gave; None where it is no tensor or is not known.

    ``stack`` is the whole stack (outermost first) of the operation that ran below that expression.
    """
    node, owner = bindings.expression_at(program.sources, frame), bindings.statement_at(program.sources, frame)
    if node is not None and owner is not None:
        above = bindings.source_at(program.sources, frame).parents.get(node)
        if isinstance(owner, ast.Expr) and owner.value is node:
            return None  # nobody keeps it: a detached copy would be thrown away
        if isinstance(above, ast.For | ast.AsyncFor | ast.comprehension) and above.iter is node:
            return None
        if isinstance(owner, ast.Assign) and owner.value is node and len(owner.targets) == 1:
            seen = _assigned(program, stack, frame, owner.targets[0])
            if seen is not UNKNOWN:
                return seen
        if isinstance(above, ast.Subscript) and above.value is node and isinstance(node, ast.Call):
            return None  # one of several results
    return _result(program.sources, stack, frame)


def named_value_at(program: Program, stack: Sequence[Frame], frame: Frame, name: str) -> Any:
    """The structure of what the statement at ``frame`` gave to one name: the value itself, or its part of a tuple."""
    owner = bindings.statement_at(program.sources, frame)
    if isinstance(owner, ast.Assign) and len(owner.targets) == 1 and isinstance(owner.targets[0], ast.Tuple | ast.List):
        parts = _parts(program, stack, frame, owner.targets[0])
        return next((p for t, p in zip(owner.targets[0].elts, parts, strict=True) if key(t) == spelled(name)), UNKNOWN)
    return value_at(program, stack, frame)


def _assigned(program: Program, stack: Sequence[Frame], frame: Frame, target: ast.expr) -> Any:
    """What the run saw under the name that an expression is assigned to."""
    if not isinstance(target, ast.Tuple | ast.List):
        return known(program, frame.file, frame.function, key(target))
    parts = _parts(program, stack, frame, target)
    return {"tuple": parts} if parts and not any(p is UNKNOWN or p is None for p in parts) else None


def _parts(program: Program, stack: Sequence[Frame], frame: Frame, target: ast.Tuple | ast.List) -> list[Any]:
    """What each name of an unpacked tuple got: as the run saw it, or as the function that was called returns it."""
    seen = [known(program, frame.file, frame.function, key(t)) for t in target.elts]
    if UNKNOWN not in seen:
        return seen
    told = _returned_parts(program.sources, stack, frame, len(seen))
    return [t if s is UNKNOWN else s for s, t in zip(seen, told, strict=True)]


def _returned_parts(sources: SourceTexts, stack: Sequence[Frame], frame: Frame, count: int) -> list[Any]:
    """The parts of the tuple that the call at ``frame`` returned, by the source of the function that was called; a
    function that returns what another one returns, or took a part from it, is followed down the stack."""
    unknown = [UNKNOWN] * count
    start = next((i for i, f in enumerate(stack) if f is frame), len(stack))
    for f in stack[start + 1 :]:
        if not f.user:
            continue
        called = bindings.function_at(sources, f)
        inside = list(own_nodes(called)) if called is not None else []
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
    unpacked = [n for n in inside if isinstance(n, ast.Assign) and key(part) in _unpacked(n)]
    if not unpacked:
        return _may_be_tensor(sources, frame.file, inside, part, 0)
    here = next((n for n in unpacked if isinstance(n.value, ast.Call) and covers(n, frame.line)), None)
    if here is None:
        return False  # made elsewhere than what is looked at
    names = _unpacked(here)
    return bool(_returned_parts(sources, stack, frame, len(names))[names.index(key(part))] == "tensor")


def _unpacked(node: ast.Assign) -> list[str]:
    """The names that a statement gives the parts of a tuple to."""
    target = node.targets[0]
    return [key(t) for t in target.elts] if isinstance(target, ast.Tuple | ast.List) else []


def _result(sources: SourceTexts, stack: Sequence[Frame], frame: Frame) -> Any:
    """What the call below the frame returned: the frames behind it say what was called."""
    start = next((i for same in (is_, eq) for i, f in enumerate(stack) if same(f, frame)), len(stack))
    for f in stack[start + 1 :]:
        name = f.function.rpartition(".")[2]
        if name == "__init__" and "distributions" not in f.file:
            return None  # an object was built
        if f.user:
            if name == "<lambda>":
                return "tensor"
            called = bindings.function_at(sources, f) if not name.startswith("<") else None
            return "tensor" if called is not None and returns_tensor(sources, f.file, called) else None
        if f.file.replace("\\", "/").endswith("torch/nn/modules/rnn.py") and not f.function.startswith(
            ("GRUCell", "RNNCell")
        ):
            return None  # (output, state), or (h, c)
    return "tensor"


def returns_tensor(sources: SourceTexts, file: str, function: ast.AST, depth: int = 0) -> bool:
    """False where the source shows that a function gives something else than one tensor."""
    inside = list(own_nodes(function))
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in inside):
        return False
    values = [n.value for n in inside if isinstance(n, ast.Return)]
    return bool(values) and all(v is not None and _may_be_tensor(sources, file, inside, v, depth) for v in values)


def _may_be_tensor(sources: SourceTexts, file: str, inside: list[ast.AST], value: ast.expr, depth: int) -> bool:
    if isinstance(value, ast.Name):
        bound = [n.value for n in inside if isinstance(n, ast.Assign) and any(is_name(t, value.id) for t in n.targets)]
        if value.id in ("self", "cls") or depth >= _DEEPEST:
            return value.id not in ("self", "cls")
        # A start value such as `total = 0.0` is not what a sum of tensors ends as: the last binding counts.
        return not bound or _may_be_tensor(sources, file, inside, bound[-1], depth + 1)
    if isinstance(value, ast.IfExp):
        return all(_may_be_tensor(sources, file, inside, v, depth) for v in (value.body, value.orelse))
    if isinstance(value, ast.Call):
        return not builds_object(sources, value) and _calls_for_tensor(sources, file, value, depth)
    return not isinstance(value, _NO_TENSOR)


def _calls_for_tensor(sources: SourceTexts, file: str, value: ast.Call, depth: int) -> bool:
    name = last_word(value.func)
    if name in _PLAIN:
        return False
    root = bindings.tree(sources, file)
    if depth >= _DEEPEST or not isinstance(value.func, ast.Name):
        return True
    called = [n for n in each(root, ast.FunctionDef) if n.name == name]
    return len(called) != 1 or returns_tensor(sources, file, called[0], depth + 1)


def builds_object(sources: SourceTexts, value: ast.expr) -> bool:
    """Whether an expression is a call of a class of the user's program."""
    if not isinstance(value, ast.Call):
        return False
    name = bindings.dotted(value.func).rpartition(".")[2]
    return bool(name) and any(n.name == name for _, n in bindings.everywhere(sources, ast.ClassDef))


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
    return any(last_word(n.func) in names for s in own for n in each(s, ast.Call))


# Statements that give a whole tensor new numbers in place: the graph behind what it held before stays with it.

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
        tensor = _written(s)
        times_zero = taking.op.startswith("Mul") and _times_zero(s)
        if tensor is not None and (times_zero or (taking.op.startswith(_WRITES) and not _times_zero(s))):
            return Reset(bindings.frame_of(sources, frame.file, s, frame.function), ast.unparse(tensor), taking)
    return None


def _unrecorded(sources: SourceTexts, failing: Event | None) -> list[tuple[str, Reset]]:
    """The statements that reset something, through ``.data`` or under ``no_grad``, in each round of a loop around the
    call: they stand there, or in a function that is called there. Each with the name of what it resets."""
    loops = [(f, node_loop_of(sources, f)) for f in failing.stack if f.user] if failing is not None else []
    around = [(f.file, loop) for f, loop in loops if loop is not None]
    called = {last_word(n.func) for _, loop in around for n in each(loop, ast.Call)}
    found = []
    for file, scope in bindings.everywhere(sources, ast.Module, ast.FunctionDef):
        name = getattr(scope, "name", "<module>")
        for s in statements(scope):
            tensor = _hidden(scope, s)
            inside = any(file == f and covers(loop, s.lineno) for f, loop in around)
            if tensor is not None and (inside or name in called):
                found.append((last_word(tensor), Reset(bindings.frame_of(sources, file, s, name), ast.unparse(tensor))))
    return found


def _hidden(scope: ast.AST, statement: ast.stmt) -> ast.expr | None:
    """What a statement resets without recording."""
    tensor = _written(statement)
    if tensor is None:
        return None
    if isinstance(tensor, ast.Attribute) and tensor.attr == "data":
        return tensor.value
    blocks = [n for n in each(scope, ast.With) if statement in n.body]
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
    call = bare_call(statement)
    if call is None or not (last_word(call.func) in _FILLING or _times_zero(statement)):
        return None
    owner = receiver_of(call)
    if owner is not None and last_word(owner) not in _LIBRARY:
        return _whole(owner)
    return _whole(call.args[0]) if call.args else None


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
        value = only(call.args if call is not None and last_word(call.func) == "mul_" else [])
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
    chosen = [s for s in block[at + 1 :] if any(covers(s, line) for line in lines)]
    if not chosen:
        chosen = [s for s in block[at + 1 :] if calls_method(s, "step")]
    if not chosen:
        return frame, frame
    anchor = bindings.frame_of(sources, frame.file, chosen[-1], frame.function)
    inside = [n for n in each(chosen[-1], ast.stmt) if not isinstance(n, ast.If | ast.With)]
    made = [n for n in inside if n.lineno in lines] or [n for n in inside if calls_method(n, "step")]
    return anchor, bindings.frame_of(sources, frame.file, made[-1], frame.function) if made else anchor


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
