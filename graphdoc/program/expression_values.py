"""What an expression of the user's program gave: a tensor, a nest of tensors that a fix can handle, or neither.

Two witnesses: the paths by which the run's tensors are held (each step of a path names a class), and the source of the
function that was called. Where both are silent the answer is None: nothing is detached on a guess.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from graphdoc.evidence import Event, Frame, Holder, SourceTexts
from graphdoc.program.bindings import dotted, function_around, shallow, tree
from graphdoc.program.observed import Program
from graphdoc.program.spans import in_function
from graphdoc.source.module import Source
from graphdoc.source.paths import covers, key, last_word, parse_expression
from graphdoc.source.places import Place

UNKNOWN = object()
"""Nothing is known of this path: not that it holds a tensor, and not that it holds something else."""

_PLAIN = frozenset(
    {"dict", "list", "set", "float", "int", "str", "bool", "len", "sorted", "zip", "map", "print", "item", "tolist"}
    | {"numpy", "deque", "defaultdict", "OrderedDict", "Counter", "enumerate", "range", "items", "values", "keys"}
)
_DEEPEST = 3


def can_detach(program: Program, at: Frame) -> bool:
    """Whether ``x.detach()`` at this place can have run: the run has not seen ``x`` as a tuple alone."""
    source = Source(at.file, program.sources.get(at.file, ""))
    node = source.node_statement(Place.of(at))
    value = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    if node is None or not isinstance(value, ast.Attribute):
        return True
    path, function = _spelled(dotted(value.value)), source.node_function(node)
    name = function.name if function is not None else "<module>"
    here = [h for h in program.holders if h.file == at.file and h.function.rpartition(".")[2] == name]
    seen = [h.structure for h in here if _spelled(h.base) == path]
    return not seen or "tensor" in seen


def known(program: Program, file: str, function: str, path: str) -> Any:
    """What the run saw at a path of names and attributes in a function that was under way: a structure (in the words
    of ``graphdoc.fixes.structures``), None for what is no tensor and no such nest, or ``UNKNOWN``."""
    wanted = _spelled(path)
    found: Any = UNKNOWN
    for h in program.holders:
        if (h.file, h.function) != (file, function):
            continue
        if _spelled(h.path) == wanted:
            return "tensor"
        if _spelled(h.base) == wanted:
            return h.structure
        if any(_spelled(text) == wanted for text in _above(h)):
            found = None
    if found is not UNKNOWN:
        return found
    here = [_spelled(t.path) for t in program.tensors if t.function == function]
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


def _spelled(path: str) -> str:
    node = parse_expression(path)
    return key(node) if node is not None else path


def value_at(program: Program, stack: Sequence[Frame], frame: Frame) -> Any:
    """The structure of what the expression at ``frame`` gave; None where it is no tensor or is not known.

    ``stack`` is the whole stack (outermost first) of the operation that ran below that expression.
    """
    text = program.sources.get(frame.file)
    if text is None:
        return None
    source = Source(frame.file, text)
    node = source.node_expression(Place.of(frame)) if frame.column else None
    owner = source.node_statement(Place.of(frame))
    if node is not None and owner is not None:
        above = source.parents.get(node)
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
    text = program.sources.get(frame.file)
    owner = Source(frame.file, text).node_statement(Place.of(frame)) if text is not None else None
    if isinstance(owner, ast.Assign) and len(owner.targets) == 1 and isinstance(owner.targets[0], ast.Tuple | ast.List):
        parts = _parts(program, stack, frame, owner.targets[0])
        return next((p for t, p in zip(owner.targets[0].elts, parts, strict=True) if key(t) == _spelled(name)), UNKNOWN)
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
        root = tree(sources, f.file)
        called = function_around(root, f.line) if root is not None else None
        inside = list(shallow(called)) if called is not None else []
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
    start = next((i for i, f in enumerate(stack) if f is frame), -1)
    if start < 0:
        start = next((i for i, f in enumerate(stack) if f == frame), -1)
    for f in stack[start + 1 :] if start >= 0 else ():
        name = f.function.rpartition(".")[2]
        if name == "__init__" and "distributions" not in f.file:
            return None  # an object was built
        if f.user:
            root = tree(sources, f.file)
            called = function_around(root, f.line) if root is not None else None
            if name in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>"):
                return None
            if called is None or name == "<lambda>":
                return "tensor" if name == "<lambda>" else None
            return "tensor" if returns_tensor(sources, f.file, called) else None
        if f.file.replace("\\", "/").endswith("torch/nn/modules/rnn.py") and not f.function.startswith(
            ("GRUCell", "RNNCell")
        ):
            return None  # (output, state), or (h, c)
    return "tensor"


def returns_tensor(sources: SourceTexts, file: str, function: ast.AST, depth: int = 0) -> bool:
    """False where the source shows that a function gives something else than one tensor."""
    inside = list(shallow(function))
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in inside):
        return False
    values = [n.value for n in inside if isinstance(n, ast.Return)]
    return bool(values) and all(v is not None and _may_be_tensor(sources, file, inside, v, depth) for v in values)


def _may_be_tensor(sources: SourceTexts, file: str, inside: list[ast.AST], value: ast.expr, depth: int) -> bool:
    if isinstance(value, ast.Name):
        bound = [
            n.value
            for n in inside
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == value.id for t in n.targets)
        ]
        if value.id in ("self", "cls") or depth >= _DEEPEST:
            return value.id not in ("self", "cls")
        # A start value such as `total = 0.0` is not what a sum of tensors ends as: the last binding counts.
        return not bound or _may_be_tensor(sources, file, inside, bound[-1], depth + 1)
    if isinstance(value, ast.IfExp):
        return all(_may_be_tensor(sources, file, inside, v, depth) for v in (value.body, value.orelse))
    if isinstance(value, ast.Call):
        return not builds_object(sources, value) and _calls_for_tensor(sources, file, value, depth)
    return not isinstance(
        value,
        ast.Constant
        | ast.Dict
        | ast.List
        | ast.Set
        | ast.Tuple
        | ast.ListComp
        | ast.SetComp
        | ast.DictComp
        | ast.GeneratorExp
        | ast.JoinedStr
        | ast.Compare
        | ast.Lambda,
    )


def _calls_for_tensor(sources: SourceTexts, file: str, value: ast.Call, depth: int) -> bool:
    name = last_word(value.func)
    if name in _PLAIN:
        return False
    root = tree(sources, file)
    if depth >= _DEEPEST or root is None or not isinstance(value.func, ast.Name):
        return True
    called = [n for n in ast.walk(root) if isinstance(n, ast.FunctionDef) and n.name == name]
    return len(called) != 1 or returns_tensor(sources, file, called[0], depth + 1)


def builds_object(sources: SourceTexts, value: ast.expr) -> bool:
    """Whether an expression is a call of a class of the user's program."""
    if not isinstance(value, ast.Call):
        return False
    name = dotted(value.func).rpartition(".")[2]
    return bool(name) and any(
        isinstance(n, ast.ClassDef) and n.name == name
        for file in sources
        for n in ast.walk(tree(sources, file) or ast.Module([], []))
    )


def in_training(events: list[Event], frame: Frame) -> bool:
    """Whether a backward call or an optimizer step ran inside the function of this frame."""
    stacks = [e.stack for e in events if e.kind in ("backward", "grad", "step")]
    return any(in_function(stack, frame) is not None for stack in stacks)


def trains_below(sources: SourceTexts, events: list[Event], frame: Frame) -> bool:
    """Whether a backward call or an optimizer step ran below the statement of this frame."""
    text = sources.get(frame.file)
    owner = Source(frame.file, text).node_statement(Place.of(frame)) if text is not None else None
    first, last = (owner.lineno, owner.end_lineno or owner.lineno) if owner is not None else (frame.line, frame.line)
    stacks = [e.stack for e in events if e.kind in ("backward", "grad", "step")]
    return any(
        (f.file, f.function) == (frame.file, frame.function) and first <= f.line <= last
        for stack in stacks
        for f in stack
    )


def calls_into(sources: SourceTexts, frames: Sequence[Frame], function: str) -> bool:
    """Whether the functions of these frames call, by name, the function with this (qualified) name."""
    name = function.rpartition(".")[2]
    for f in frames:
        root = tree(sources, f.file)
        scope = function_around(root, f.line) if root is not None else None
        for n in ast.walk(scope) if scope is not None else ():
            if isinstance(n, ast.Call) and name in (getattr(n.func, "attr", ""), getattr(n.func, "id", "")):
                return True
    return False
