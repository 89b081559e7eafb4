"""The torch.autograd.Functions of the user's program: what the run saw, what they save, and what they compute."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Evidence, Frame, SourceTexts
from graphdoc.program import bindings, name_usage
from graphdoc.program.spans import frames, innermost_user, user_line
from graphdoc.source.module import each, is_method_call, is_within, values_of, walked
from graphdoc.source.paths import (
    bare_call,
    blocks_of,
    called,
    elements,
    is_constant,
    is_name,
    is_read,
    is_set,
    last_word,
    only,
    parts_of,
    plain_names,
    targets_of,
)
from graphdoc.source.scopes import given_by, imported, own_nodes, parameters

_READS = {"shape", "dtype", "device", "ndim", "training"}
_CUTS = {"numpy", "item", "tolist", "detach", "data", "grad", "apply", "backward", "requires_grad", "tensor"}
_CUTS |= {"as_tensor", "new_tensor", "from_numpy", "inference_mode", "no_grad", "set_grad_enabled", "data_ptr"}
_OURS = ("torch", "math")
_PLAIN = {"len", "range", "zip", "enumerate", "tuple", "list", "sum", "isinstance"}


@dataclass(frozen=True)
class Used:
    """A Function that a graph goes through.

    ``needs`` tells for each input of forward whether it needed a gradient in some call; ``numbers`` are the positions
    that were no tensor in any. ``apply`` is where it was called, ``once`` whether its backward is marked as not
    differentiable, ``seen`` whether the graph held one of its nodes: marked ones are told in any case.
    """

    name: str
    node: str
    file: str
    line: int
    once: bool
    seen: bool
    needs: tuple[bool, ...]
    numbers: frozenset[int]
    apply: Frame | None


def used(extras: dict[str, Any]) -> Iterator[Used]:
    """Every Function of the user's that the failing graph, or a tensor near the failure, came from."""
    told = extras.get("functions")
    for entry in told if isinstance(told, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            continue
        needs = tuple(bool(n) for n in entry.get("needs") or ())
        # Where as many inputs needed gradients as were tensors, all the others were none.
        plain = sum(needs) == entry.get("tensors")
        yield Used(
            entry["name"],
            str(entry.get("node", "")),
            str(entry.get("file", "")),
            int(entry.get("backward") or 0),
            bool(entry.get("once")),
            bool(entry.get("calls")),
            needs,
            frozenset(i for i, n in enumerate(needs) if plain and not n),
            innermost_user(frames(entry.get("made"))),
        )


def runs_backward(frame: Frame) -> bool:
    """Whether the engine calls a custom Function's backward here (``torch.autograd.function``)."""
    return frame.file.replace("\\", "/").endswith("torch/autograd/function.py") and frame.function.endswith("apply")


def only_applied(extras: dict[str, Any]) -> list[Frame]:
    """Where the only Function of the user's that this graph goes through was applied; nothing where there are more."""
    found = list(used(extras))
    return [found[0].apply] if len(found) == 1 and found[0].apply is not None else []


def backward_of(sources: SourceTexts, function: Used) -> tuple[str, ast.FunctionDef] | None:
    """The file and definition of its backward: the one that begins, with its decorators, where the run says."""
    defined = each(bindings.tree(sources, function.file), ast.FunctionDef)
    here = next((n for n in defined if bindings.first_line(n) == function.line), None)
    return (function.file, here) if here is not None else bindings.method(sources, function.name, "backward")


def forward_of(sources: SourceTexts, file: str, backward: ast.FunctionDef) -> ast.FunctionDef | None:
    """The forward of the class that this backward stands in."""
    return bindings.methods_of(_class_of(sources, file, backward)).get("forward")


def _class_of(sources: SourceTexts, file: str, method: ast.FunctionDef) -> ast.ClassDef | None:
    return next((n for n in each(bindings.tree(sources, file), ast.ClassDef) if method in n.body), None)


def acts(sources: SourceTexts, function: Used) -> bool:
    """Whether a Function may be applied for what it does itself, whoever takes its result: its forward writes to what
    others keep, or calls something for its effect. Or its backward gives on nothing but what it is given."""
    at = backward_of(sources, function)
    forward = forward_of(sources, *at) if at is not None else None
    if at is None or forward is None:
        return False
    first, given = at[1].body[0], inputs_of(at[1])
    values = returned_values(first) if isinstance(first, ast.Return) else []
    if values and all(is_constant(v, None) or (isinstance(v, ast.Name) and v.id in given) for v in values):
        return True
    own = plain_names(forward, ast.Store) | {a.arg for a in forward.args.args[:1]}
    kept = [t for n in own_nodes(forward) for t in targets_of(n) if isinstance(t, ast.Attribute | ast.Subscript)]
    calls = [call.func for n in own_nodes(forward) if (call := bare_call(n)) is not None]
    return any(re.split(r"[.\[]", bindings.text_of(on))[0] not in own for on in (*kept, *calls))


def forwards_without_backward(sources: SourceTexts, name: str) -> list[tuple[str, ast.FunctionDef]]:
    """The forward, with its file, of each class of this name that has neither ``backward`` nor ``vjp``."""
    found = _methods_of(sources, name)
    return [(file, m["forward"]) for file, m in found if "forward" in m and not m.keys() & {"backward", "vjp"}]


def _methods_of(sources: SourceTexts, name: str) -> Iterator[tuple[str, dict[str, ast.FunctionDef]]]:
    """The methods by their names, and the file, of each class of this name."""
    classes = bindings.everywhere(sources, ast.ClassDef)
    return ((file, bindings.methods_of(node)) for file, node in classes if node.name == name)


def inputs_of(forward: ast.FunctionDef, with_ctx: bool = True) -> list[str]:
    """The names of forward's arguments after ``ctx``; empty where their number is not fixed."""
    a = forward.args
    if a.vararg or a.kwonlyargs or a.kwarg:
        return []
    return [x.arg for x in (*a.posonlyargs, *a.args)][int(with_ctx) :]


def takes_ctx(sources: SourceTexts, file: str, forward: ast.FunctionDef) -> bool:
    """Whether forward is given ``ctx``; in a class that has a ``setup_context`` only that is."""
    return "setup_context" not in bindings.methods_of(_class_of(sources, file, forward))


def mark(function: ast.FunctionDef) -> ast.expr | None:
    """The decorator ``once_differentiable`` of a function."""
    return next((d for d in function.decorator_list if bindings.text_of(d).endswith("once_differentiable")), None)


def keeps_the_graph(sources: SourceTexts, file: str, forward: ast.FunctionDef, backward: ast.FunctionDef) -> bool:
    """Whether autograd can differentiate this backward as it is written, as far as its source shows.

    It can where backward computes with operations of torch on ``grad_output`` and on what forward was given or
    returned: these have a graph of their own. What forward computed besides has none (it runs unrecorded), and what
    another library computes neither.
    """
    known = imported(bindings.tree(sources, file))
    foreign = {name for name, whole in known.items() if whole.split(".")[0] not in _OURS}
    parts = [n for statement in backward.body for n in walked(statement)]
    return not kept_besides(forward) and all(_recorded(n, foreign) for n in parts)


def kept_besides(forward: ast.FunctionDef) -> list[ast.expr]:
    """What forward leaves on ``ctx`` that is no argument, no result, and may be a tensor."""
    ctx = forward.args.args[0].arg if forward.args.args else "ctx"
    own = {*inputs_of(forward)} - plain_names(forward, ast.Store)
    own |= {v.id for n in each(forward, ast.Return) for v in returned_values(n) if isinstance(v, ast.Name)}
    saves = (n for n in each(forward, ast.Call) if bindings.text_of(n.func) == f"{ctx}.save_for_backward")
    left = (n.value for n in each(forward, ast.Assign) if bindings.text_of(n.targets[0]).startswith(f"{ctx}."))
    saved = [a for call in saves for a in call.args if not (isinstance(a, ast.Name) and a.id in own)]
    return saved + [value for value in left if not _is_own_or_plain(value, own)]


def _is_own_or_plain(value: ast.expr, own: set[str]) -> bool:
    parts = {n.attr for n in each(value, ast.Attribute)}
    return isinstance(value, ast.Constant) or last_word(value) in own or (bool(parts) and parts <= _READS)


def _recorded(node: ast.AST, foreign: set[str]) -> bool:
    """Whether this part of a backward is nothing that would end the graph, write in place or leave torch."""
    if isinstance(node, ast.AugAssign | ast.With | ast.Delete | ast.Global | ast.Nonlocal):
        return False
    if isinstance(node, ast.Subscript | ast.Attribute) and is_set(node):
        return False
    if isinstance(node, ast.Attribute):
        return node.attr not in _CUTS and (not node.attr.endswith("_") or node.attr[:1] == "_")
    of_name = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return called(node) in _PLAIN if of_name else not isinstance(node, ast.Name) or node.id not in foreign


def class_of_kept(sources: SourceTexts, frame: Frame, path: str) -> str:
    """The Function of which an object is kept under this path (``self.reverse``); empty where that is not one alone.

    For an attribute it is told by what the class around the frame binds to it, for a plain name by the file.
    """
    root = bindings.tree(sources, frame.file)
    around = bindings.class_around(root, frame.line) if path.startswith("self.") else None
    built = {called(value) for value in values_of(around or root, path)}
    classes = (n for _, n in bindings.everywhere(sources, ast.ClassDef))
    functions = {n.name for n in classes if "Function" in map(last_word, n.bases)}
    return built.pop() if len(built) == 1 and built <= functions else ""


# Where a custom Function saves tensors in more than one call, of which only the last one counts.


@dataclass(frozen=True)
class SavedAgain:
    """Two calls of ``save_for_backward`` in one forward, and where its backward unpacks what was saved."""

    calls: list[Frame]
    unpacked: Frame


def saved_again(sources: SourceTexts) -> SavedAgain | None:
    """The first Function of the sources that does."""
    for file, backward in bindings.methods_named(sources, "backward", "ctx"):
        unpacked = [n for n in each(backward, ast.Assign) if "saved_tensors" in bindings.text_of(n)]
        saves = [f for f in bindings.calls_named(sources, "save_for_backward") if f.file == file]
        above = [f for f in saves if f.line < backward.lineno][-2:]
        if unpacked and len(above) == 2 and len({bindings.function_at(sources, f) for f in above}) == 1:
            return SavedAgain(above, bindings.frame_of(sources, file, unpacked[0]))
    return None


# What the source of a custom Function's backward computes for each input of its forward.

_WORDS = ("grad", "gradient", "g", "d", "dl")
"""What stands before or behind an input's name in that of its gradient: `grad_weight`, `weight_grad`, `dW`."""


@dataclass(frozen=True)
class InputGradients:
    """One value for each input: a name or expression of backward, or ``None``. ``by_order`` are the inputs that got
    theirs by nothing but their order; of which input such a value is the gradient, its name does not say."""

    values: tuple[str, ...]
    by_order: tuple[str, ...] = ()


def input_gradients(
    backward: ast.FunctionDef,
    returned: ast.Return | None,
    inputs: Sequence[str],
    needs: Sequence[bool],
    numbers: frozenset[int],
) -> InputGradients | None:
    """What can be returned at the place of ``returned`` (None: at the end), each value at the place of its input.

    A value belongs to the input whose name it carries. The others, of what is returned already and of what backward
    computes and never reads, are handed out in their order, where there are as many as inputs that need a gradient.
    None where an input that needs one would be left without.
    """
    bound = _bound_before(backward.body, returned)
    read = {n for s in backward.body for n in _computed_with(s)}
    written = [bindings.text_of(v) for v in returned_values(returned)]
    computed = [*written, *(n for n in bound if n not in written)]
    found: dict[int, str] = {}
    for i, name in enumerate(inputs):
        own = [v for v in computed if name and _is_gradient_of(v, name)]
        if own and i not in numbers:
            found[i] = own[0]
    left = [v for v in computed if v not in found.values() and v != "None" and (v in written or v not in read)]
    open_ = [i for i in range(len(inputs)) if i not in found and i not in numbers]
    wanting = [i for i in open_ if not needs or needs[i]]
    for group in (wanting, open_):
        if group and len(group) == len(left):
            found.update(zip(group, left, strict=True))
            break
    by_order = tuple(inputs[i] for i in open_ if i in found)
    values = tuple(found.get(i, "None") for i in range(len(inputs)))
    complete = found and all(i in found for i in wanting)
    return InputGradients(values, by_order if len(by_order) > 1 else ()) if complete else None


def returned_values(returned: ast.Return | None) -> list[ast.expr]:
    """The values that a return statement writes out, those of a list as well; any other is one value."""
    value = returned.value if returned is not None else None
    return elements(value) or ([value] if value is not None else [])


def reaches_end(body: Sequence[ast.stmt]) -> bool:
    """Whether a function may come to its end without a return."""
    last = body[-1]
    if isinstance(last, ast.If | ast.With):
        other = isinstance(last, ast.If) and (not last.orelse or reaches_end(last.orelse))
        return other or reaches_end(last.body)
    return not isinstance(last, ast.Return | ast.Raise)


def _is_gradient_of(value: str, name: str) -> bool:
    """Whether a name says that it is the gradient of an input: `grad_w`, `w_grad`, `dW` of `w`."""
    own, wanted = (text.lower().replace("_", "") for text in (value, name))
    return value.isidentifier() and any(own in (word + wanted, wanted + word) for word in _WORDS)


def _bound_before(body: Sequence[ast.stmt], at: ast.stmt | None) -> list[str]:
    """The names that a body has computed when it comes to a statement, or to its end, whatever way it took."""
    names: dict[str, None] = {}
    for statement in body:
        if statement is at:
            break
        inner = next((b for b in blocks_of(statement) if any(is_within(at, s) for s in b)), None)
        if inner is not None:
            names.update(dict.fromkeys(_bound_before(inner, at)))
            break
        names.update(dict.fromkeys(_binds(statement)))
    return list(names)


def _binds(statement: ast.stmt) -> list[str]:
    """The names that a statement binds to something computed; not those that it takes from `ctx`."""
    if isinstance(statement, ast.With):
        return _bound_before(statement.body, None)
    if isinstance(statement, ast.If):
        first, other = (_bound_before(b, None) if b else [] for b in (statement.body, statement.orelse))
        return [n for n in first if n in other]
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or isinstance(value, ast.Attribute):
        return []
    return [t.id for t in targets_of(statement) if isinstance(t, ast.Name)]


def _computed_with(node: ast.AST) -> Iterator[str]:
    """The names that a statement computes something with; a value that is returned as it is is none of them."""
    if isinstance(node, ast.Name) and is_read(node):
        yield node.id
    parts = returned_values(node) if isinstance(node, ast.Return) else ast.iter_child_nodes(node)
    for child in parts:
        if not (isinstance(node, ast.Return) and isinstance(child, ast.Name)):
            yield from _computed_with(child)


# Functions of the user's that hand a value on as it is, and are there for what they make of its gradient.

_AS_IT_IS = frozenset({"view_as", "view", "clone", "alias", "expand_as", "reshape", "contiguous"})


def changes_the_gradient_alone(sources: SourceTexts, op: str) -> bool:
    """Whether a node is that of a Function whose forward gives back its input, and whose backward does not: a gradient
    reversal, a scale, a clip. Whoever applies one wants the gradient to go through it.

    Args:
        op: the name of the node: that of the class and ``Backward`` (torch/csrc/autograd/python_function.cpp).
    """
    name = op.removesuffix("Backward")
    _, methods = next(_methods_of(sources, name), ("", {})) if name != op else ("", {})
    forward, backward = methods.get("forward"), methods.get("backward")
    return forward is not None and backward is not None and _hands_on(forward) and not _hands_on(backward)


def _hands_on(function: ast.FunctionDef) -> bool:
    """Whether all that a method of a Function gives back is what it was given first."""
    given = inputs_of(function)[:1]
    returned = [n.value for n in each(function, ast.Return) if n.value is not None]
    return bool(given and returned) and all(_is_as_it_is(value, given[0]) for value in returned)


def _is_as_it_is(value: ast.expr, name: str) -> bool:
    match value:
        case ast.Tuple(elts=[first, *_]):
            return _is_as_it_is(first, name)
        case (
            ast.BinOp(left=tensor, op=ast.Mult(), right=ast.Constant(value=1))
            | ast.BinOp(left=ast.Constant(value=1), op=ast.Mult(), right=tensor)
            | ast.Call(func=ast.Attribute(value=tensor, attr="mul"), args=[ast.Constant(value=1)])
        ):
            return _is_as_it_is(tensor, name)
    same = is_method_call(value, *_AS_IT_IS) and _is_as_it_is(value.func.value, name)
    return same or is_name(value, name)


# A function that takes what a gradient is asked for, and does not read it.

Idle = tuple[str, str, Frame]
"""A function, the argument that it takes and does not read, and the place of its body."""


def idle_argument(sources: SourceTexts, frame: Frame | None) -> Idle | None:
    """The one function that is given an input of the ``grad`` call at ``frame``, or what has its name, and does not
    read it; None of several.

    One that takes something else and does not read that has no part in the missing gradient.
    """
    wanted = asked_names(sources, frame)
    return only(
        [i for i in name_usage.idle_arguments(sources) if not wanted or i[1] in wanted or _given(sources, i, wanted)]
    )


def asked_names(sources: SourceTexts, frame: Frame | None) -> set[str]:
    """The names in the inputs of the ``grad`` call at ``frame``, and in what these were assigned from: ``params`` of
    ``weights = list(params.values())``."""
    inputs = bindings.argument(bindings.call_at(sources, frame), 1, "inputs")
    names = _names(inputs)
    if frame is not None and isinstance(inputs, ast.Name):
        names |= {name for _, value in bindings.assignments(sources, frame, inputs.id) for name in _names(value)}
    return names


def read_besides(run: Evidence) -> bool:
    """Whether the function that asks for a gradient reads the input outside of what a ``grad`` call is given, too."""
    frame = user_line(run.raised)
    call = bindings.call_at(run.sources, frame)
    inputs = bindings.argument(call, 1, "inputs")
    scope = bindings.scope_at(run.sources, frame)
    if frame is None or not isinstance(inputs, ast.Name):
        return False
    asked = (bindings.argument(n, 1, "inputs") for n in each(scope, ast.Call) if called(n) == "grad")
    given = {n for a in asked for n in each(a, ast.Name)}
    return any(n.id == inputs.id and is_read(n) and n not in given for n in each(scope, ast.Name))


def _given(sources: SourceTexts, idle: Idle, wanted: set[str]) -> bool:
    """Whether a call of the function (of its object, for a forward) passes one of these names as the idle argument."""
    function, argument, place = idle
    around = bindings.function_at(sources, place)
    calls = [c for c in each(bindings.tree(sources, place.file), ast.Call) if function in (called(c), "forward")]
    if around is None or argument not in parameters(around):  # of a lambda
        return any(wanted & _names(a) for c in calls for a in c.args)
    return any(wanted & _names(given_by(around, c).get(argument)) for c in calls)


def _names(node: ast.expr | None) -> set[str]:
    return {part for n in bindings.names_in(node) for part in parts_of(n)} - {"self"}
