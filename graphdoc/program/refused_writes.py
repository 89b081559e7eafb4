"""Writes into leaves and views that autograd refuses or does not see, and what each was for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import tree_at
from graphdoc.program.carried_names import read_behind
from graphdoc.program.container_entries import statements, statements_at
from graphdoc.program.installed import builders
from graphdoc.program.observed import Program
from graphdoc.program.spans import Reached, innermost_user
from graphdoc.program.writers import Target, bound_before, is_statement, target_of
from graphdoc.source.expressions import FILLS, TAKEN_OUT, is_full
from graphdoc.source.module import Loop, each, given_to, is_method_call, keyword, receiver_of, walked
from graphdoc.source.paths import (
    bare_call,
    called,
    covers,
    entries_of,
    is_attribute,
    is_constant,
    is_in_place,
    is_name,
    key,
    last_word,
    path_of,
    sole_target,
    targets_of,
    without_subscripts,
)
from graphdoc.source.scopes import computes, is_container, is_read_later, is_torchs, iterated

# What a leaf is for that the program writes in place: a gradient of its own, or to be filled with what has a graph.

_RECKONS = frozenset({"add_", "sub_", "mul_", "div_", "addcmul_", "addcdiv_", "subtract_", "multiply_", "divide_"})
_WRAPPERS = frozenset({"Variable", "to", "cuda", "cpu", "float", "double", "type"})


def entry_written(sources: SourceTexts, frame: Frame) -> str:
    """The entry of a list or a dictionary that the statement writes into: ``s[t + 1]`` of ``s[t + 1][:, 0] = v``; empty
    where it writes into no such thing."""
    source, owner = bindings.source_at(sources, frame), bindings.statement_at(sources, frame)
    value = bare_call(owner)
    for node in [value.func.value] if is_method_call(value) else targets_of(owner) if owner is not None else ():
        # What has a string for its key is named by the path as it is written.
        while isinstance(node, ast.Subscript) and not isinstance(getattr(node.slice, "value", None), str):
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
    owner = bindings.statement_at(sources, frame)
    if not isinstance(owner, ast.AugAssign) or not isinstance(owner.target, ast.Subscript):
        return ""
    at = bindings.frame_of(sources, frame, owner)
    return key(owner.target) if at.extent == frame.extent else ""


def gradient_asked(sources: SourceTexts, frame: Frame, path: str) -> list[int]:
    """The lines at which the program takes the gradient of this very tensor: ``x.grad``, ``autograd.grad(loss, x)``,
    ``backward(inputs=[x])``. Of a plain name those of its own function; of an attribute those of the file."""
    scope = bindings.tree(sources, frame.file) if "." in path else bindings.scope_at(sources, frame)
    return sorted({n.lineno for n in each(scope, ast.expr) if path and _asks(n, path.partition("[")[0])})


def is_update_of_its_own(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether a leaf whose gradient is taken is moved, or begun, by the write: behind the gradient, in a loop with it,
    or by a method that gives it new numbers as a whole. A value that leads to the gradient is another thing."""
    asked, owner = gradient_asked(sources, frame, path), bindings.statement_at(sources, frame)
    if not asked or owner is None:
        return False
    loops = bindings.source_at(sources, frame).node_loops(owner)
    again = any(covers(loop, line) for loop in loops for line in asked)
    return again or min(asked) <= owner.lineno or called(bare_call(owner)) in FILLS


def goes_on_with_it(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether a function computes on with a plain name of its own that it has written by an operator: ``x /= scale`` of
    an argument, and then what it returns."""
    added = isinstance(bindings.statement_at(sources, frame), ast.AugAssign) and path.isidentifier()
    return added and bindings.function_at(sources, frame) is not None and read_behind(sources, frame, path)


def is_for_its_effect(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether a function writes into a plain name of its own (``gate = bias[4:8]``; ``gate += 1``), and nothing reads
    it any more: the write is there for whom else it changes."""
    source, owner = bindings.source_at(sources, frame), bindings.statement_at(sources, frame)
    function = source.node_function(owner) if owner is not None else None
    if owner is None or function is None or not path.isidentifier() or isinstance(owner, ast.Return):
        return False
    outer = any(path in n.names for n in each(function, ast.Global, ast.Nonlocal))
    return not outer and not is_read_later(source, owner, path)


def is_reckoned(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the write takes what is there and adds, takes off, multiplies or divides: no new numbers, no bounds."""
    owner = bindings.statement_at(sources, frame)
    return isinstance(owner, ast.AugAssign) or called(bare_call(owner)) in _RECKONS


def flags_of(sources: SourceTexts, frame: Frame, path: str) -> list[Frame]:
    """The calls with ``requires_grad=True`` that made a tensor, or the entries of the container that it is in; none
    where one of them was made in another way, or is a parameter, which takes the flag of its own accord."""
    base = path.partition("[")[0]
    made = [value for _, value in bindings.assignments(sources, frame, base)]
    if base != path:
        made = [v for value in made if not isinstance(value, ast.Tuple) for v in entries_of(value)]
        made += list(_put(sources, frame, base))
    calls = [_flagged(value) for value in made]
    return [bindings.frame_of(sources, frame.file, c) for c in calls if c is not None] if all(calls) else []


def _asks(node: ast.expr, base: str) -> bool:
    asked: list[ast.expr] = [node.value] if is_attribute(node, "grad") else []
    if isinstance(node, ast.Call):
        given = bindings.argument(node, 1, "inputs") if called(node) == "grad" else keyword(node, "inputs")
        asked = list(each(given, ast.expr))
    return any(bindings.text_of(without_subscripts(n)) == base for n in asked)


def _put(sources: SourceTexts, frame: Frame, base: str) -> Iterator[ast.expr]:
    """What the function puts into a container: ``s[t] = v``, ``s.append(v)``."""
    for node in each(bindings.scope_at(sources, frame), ast.Assign, ast.Call):
        if isinstance(node, ast.Call):
            yield from node.args[:1] if bindings.text_of(node.func) == f"{base}.append" else ()
        elif node.lineno != frame.line:
            entries = (t for t in node.targets if isinstance(t, ast.Subscript) and bindings.text_of(t.value) == base)
            yield from (node.value for _ in entries)


def _flagged(value: ast.expr) -> ast.Call | None:
    """The call in an expression that makes a leaf with the flag; not a parameter."""
    while isinstance(value, ast.Call):
        flagged = is_constant(keyword(value, "requires_grad"), True)
        if flagged or called(value) not in _WRAPPERS:
            own = called(value) == "requires_grad_" and not given_to(value)
            return value if own or (flagged and called(value) != "Parameter") else None
        inner = receiver_of(value)
        value = value.args[0] if inner is None or (isinstance(inner, ast.Name) and value.args) else inner
    return None


# Which of several views that one call had returned a backward call needs, and of what expression they are views.

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
    if node is None or failing is None:
        return None
    if any(e.kind == "step" and e.sequence > node.sequence for e in program.before_failure):
        return None
    used = innermost_user(node.stack)
    if used is None or not used.column:
        return None
    operands = dict.fromkeys(bindings.source_at(program.sources, used).operands(used))
    bound = ((name, _whole(program.sources, bound_before(program.sources, used, name))) for name in operands)
    parts = [(name, whole) for name, whole in bound if whole is not None]
    if not parts:
        return None
    first = parts[0][1]
    names = tuple(n for n, whole in parts if whole.start == first.start)
    held = any(f.in_function_of(first) for f in failing.stack)
    return Unpacked(used, names, first, len(names) == len(operands), held)


def _whole(sources: SourceTexts, value: Frame | None) -> Frame | None:
    """The tensor of which the parts are bound by the statement of this value; None where it binds no parts."""
    node = bindings.expression_at(sources, value)
    if value is None or node is None:
        return None
    statement = bindings.source_at(sources, value).node_owner(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.For) and statement.iter is node:
        targets = [statement.target]
    unpacks = any(isinstance(t, ast.Tuple | ast.List) for t in targets) or isinstance(statement, ast.For)
    if not unpacks or isinstance(node, ast.Tuple | ast.List):
        return None
    if isinstance(node, ast.Call) and called(node) in _SEVERAL:
        of = node.args[0] if is_torchs(tree_at(sources, value), node.func) and node.args else receiver_of(node)
        return bindings.frame_of(sources, value, of) if of is not None else None
    return value if not isinstance(node, ast.Call) or is_method_call(node, *_OF_ONE) else None


# An in-place write that autograd refused at once: the user's line, what it writes into, what it calls for it.


@dataclass(frozen=True)
class Handed:
    """What a function was handed to write into: ``statement`` calls it and drops what it returns, ``name`` is the
    caller's."""

    statement: Frame
    name: str


@dataclass(frozen=True)
class RefusedWrite:
    """``message`` is the id of what PyTorch said. ``visible``: the write stands at ``frame`` itself; else something
    that is called there writes, and ``built`` are the calls that told it to, where they were found. What is written
    is the argument of that call only where nothing lies between: a network gives its layers what it has computed.
    ``handed`` is told where the function around is called for this write."""

    message: str
    frame: Frame
    target: Target
    visible: bool
    built: list[Frame]
    handed: Handed | None = None


def refused_write(program: Program, *messages: str) -> RefusedWrite | None:
    """The write that one of these messages is about; None where only its text is known, or no place."""
    frame, said = program.raised_at, program.message(*messages)
    if program.evidence.from_text or frame is None or not frame.column or said is None:
        return None
    visible = is_statement(program.sources, frame)
    stack = program.raised_stack
    built = [] if visible else builders(program.sources, frame, stack)
    target = target_of(program.evidence, frame) if visible or _of_one_module(stack) else Target()
    entry = entry_written(program.sources, frame) if target.path else ""
    handed = _handed(program.sources, stack, target) if visible else None
    target = replace(target, path=entry) if entry else target
    added = entry_added_to(program.sources, frame) if said.id == "leaf-inplace" and target.path else ""
    if added:
        target, handed = Target(added, kept=True, whole=True), None
    return RefusedWrite(said.id, frame, target, visible, built, handed)


def _handed(sources: SourceTexts, stack: list[Frame], target: Target) -> Handed | None:
    """What the function that writes was handed by a caller that drops what it returns: it wants the write alone."""
    own = [i for i, f in enumerate(stack) if f.user]
    if len(own) < 2 or own[-1] - own[-2] != 1 or not target.parameter or target.local:
        return None
    frame, caller = stack[own[-1]], stack[own[-2]]
    call, given = bindings.call_at(sources, caller), bindings.given_as(sources, frame, caller, target.path)
    statement = bindings.statement_at(sources, caller)
    if not isinstance(statement, ast.Expr) or bindings.text_of(statement.value) != bindings.text_of(call):
        return None
    written = without_subscripts(given) if given is not None else None
    return Handed(caller, written.id) if isinstance(written, ast.Name) else None


def _of_one_module(stack: list[Frame]) -> bool:
    """Whether the user's line calls the very module that writes: one ``forward`` at most lies below it."""
    own = innermost_user(stack)
    below = stack[stack.index(own) + 1 :] if own is not None else []
    return sum(f.function.rpartition(".")[2] == "forward" for f in below) <= 1


# A write that is assigned to itself once more through ``[:]``, which PyTorch takes for one into a leaf.


def is_written_back(program: Program, write: RefusedWrite) -> bool:
    """Whether the refused statement is ``x[…][:] += y`` and ``x`` was no leaf when it failed.

    Python adds to what ``x[…][:]`` gives, which works, and then assigns that to ``x[…][:]``: an alias that PyTorch
    makes for a full slice without noting it as a view (torch/csrc/autograd/python_variable_indexing.cpp)
    has no history by then, and requires gradients (tried with 2.13).
    """
    frame, path = write.frame, write.target.path
    held = [t for t in program.tensors if t.path == path and t.function == frame.function]
    if not write.visible or not held or any(t.is_leaf for t in held):
        return False
    owner = bindings.statement_at(program.sources, frame)
    target = owner.target if isinstance(owner, ast.AugAssign) else None
    return isinstance(target, ast.Subscript) and is_full(target.slice)


# What a write in place puts into its tensor: numbers, or a result that parameters are to learn through.

_BEGUN = frozenset({"tensor", "zeros", "ones", "full", "scalar_tensor", "zeros_like", "ones_like", "full_like"})
_PASSED_ON = frozenset({"to", "cuda", "cpu", "float", "double", "requires_grad_", "type", "Variable", "Parameter"})
_WITHOUT_GRAPH = TAKEN_OUT | {"grad", "shape", "dtype", "device"}
"""What is read through these has come without a graph."""


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
    read = [r for r in _read(tree_at(sources, frame), value) if r != name]
    if any(r in known and known[r].requires_grad and not known[r].is_leaf for r in read):
        return True
    nests = tuple(f"{_walked(sources, frame, r)}[" for r in read if r not in known)
    if nests and any(p.startswith(nests) and t.requires_grad and not t.is_leaf for p, t in known.items()):
        return True  # an entry of a list or a dictionary whose entries have graphs, a gradient of a recorded derivative
    numbers = all(r in known and not known[r].requires_grad for r in read)
    # A leaf whose own gradient is taken is no sum of results: it is moved along that gradient.
    return not numbers and _is_sum(sources, frame, name) and not gradient_asked(sources, frame, name)


def _walked(sources: SourceTexts, frame: Frame, name: str) -> str:
    """What a loop around the place runs over to give a name its value; the name itself where none does."""
    loops = [n for n in each(bindings.tree(sources, frame.file), ast.For) if covers(n, frame.line)]
    found = [path_of(over) for n in reversed(loops) if (over := iterated(n.target, n.iter, name)) is not None]
    return next((path for path in found if path), name)


def _value(sources: SourceTexts, frame: Frame) -> ast.expr | None:
    """The value of the assignment at a place, what ``x.add_(v)`` is given."""
    for node in statements_at(sources, frame):
        call = bare_call(node)
        if isinstance(node, ast.Assign | ast.AugAssign):
            return node.value
        if call is not None and call.args:
            return ast.Tuple(call.args, ast.Load())
    return None


def _read(tree: ast.Module, value: ast.AST) -> list[str]:
    """The paths that a value is computed from; not those of which only numbers are taken."""
    if isinstance(value, ast.Name | ast.Attribute):
        path = path_of(value)
        return [path] if path and not computes(tree, value) and not _WITHOUT_GRAPH & {*path.split(".")[1:]} else []
    parts: Iterable[ast.AST] = ast.iter_child_nodes(value)
    if isinstance(value, ast.Call):
        parts = [*given_to(value), *filter(None, [receiver_of(value)])] if called(value) not in TAKEN_OUT else ()
    return [r for part in parts for r in _read(tree, part)]


def _is_sum(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the function begins this name from a constant, and the statement adds to it."""
    node = bindings.statement_at(sources, frame)
    adds = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and is_name(node.target, name)
    return adds and any(_begins(tree_at(sources, at), v) for at, v in bindings.assignments(sources, frame, name))


def _begins(tree: ast.Module, value: ast.expr) -> bool:
    inner: ast.expr | None = value
    while isinstance(inner, ast.Call) and called(inner) in _PASSED_ON:
        own = receiver_of(inner) if not is_torchs(tree, inner.func) else None
        inner = own or next(iter(inner.args), None)
    made = inner.args if isinstance(inner, ast.Call) and called(inner) in _BEGUN else None
    return made is not None and all(computes(tree, n) for a in made for n in each(a, ast.Name))


# Statements that write a computed value behind autograd's back: `p.data = p - rate * g` carries no graph to `p`.


def written_from(sources: SourceTexts, wanted: set[str], stack: Sequence[Frame]) -> list[Frame]:
    """The statements that write what they compute from one of the names into the `.data` of something else.

    Those of the functions under way on ``stack`` that stand above its call or in a loop around it, else those of other
    functions.
    """
    here: list[Frame] = []
    elsewhere: list[Frame] = []
    for file in sources:
        root = bindings.tree(sources, file)
        for scope in _scopes(root):
            name = getattr(scope, "name", "<module>")
            for s in statements(scope):
                value, target = _written(s)
                if value is None or target & wanted or not _reads(scope, value, wanted):
                    continue
                at = bindings.frame_of(sources, file, s, name)
                calls = [f for f in stack if f.user and f.file == file and bindings.scope_around(root, f.line) is scope]
                if not calls:
                    elsewhere.append(at)
                elif any(s.lineno < f.line or _share_a_loop(scope, s.lineno, f.line) for f in calls):
                    here.append(at)
    return here or elsewhere


def _scopes(root: ast.Module) -> Iterator[ast.AST]:
    yield root
    yield from (n for n in each(root, ast.FunctionDef, ast.AsyncFunctionDef))


def _written(statement: ast.stmt) -> tuple[ast.expr | None, set[str]]:
    """What a statement writes into a `.data`, and the names by which it reaches what it writes into."""
    call = getattr(statement, "value", None)
    target = statement.target if isinstance(statement, ast.AugAssign) else sole_target(statement)
    value: ast.expr | None = call
    if target is None and is_method_call(call) and is_in_place(call.func.attr):
        target, value = call.func.value, ast.copy_location(ast.Tuple(list(call.args), ast.Load()), call)
    owner = without_subscripts(target) if target is not None else None
    if not is_attribute(owner, "data"):
        return None, set()
    return value, set(bindings.text_of(owner.value).replace("[", ".").split("."))


def _reads(scope: ast.AST, value: ast.expr, wanted: set[str]) -> bool:
    """Whether an expression is made of one of the names with the graph that leads to it."""
    return any(_names_with_graph(e) & wanted for e in bindings.made_of(scope, value).expressions)


def _names_with_graph(node: ast.AST) -> set[str]:
    if is_attribute(node, *_WITHOUT_GRAPH):
        return set()
    inner = (name for child in ast.iter_child_nodes(node) for name in _names_with_graph(child))
    return {*filter(None, [last_word(node)]), *inner}


def _share_a_loop(scope: ast.AST, one: int, other: int) -> bool:
    return any(isinstance(n, Loop) and covers(n, one) and covers(n, other) for n in walked(scope))
