"""Writes into tensors: what the source says of one, whose deed it is, and whether they account for its version."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from graphdoc.evidence import (
    Event,
    Evidence,
    Frame,
    Holder,
    Node,
    Optimizer,
    SourceTexts,
    Stale,
    Write,
    event_with,
    node_with,
    optimizer_with,
)
from graphdoc.program import bindings
from graphdoc.program.bindings import expression_at, frame_of, function_at, scope_at, source_at, statement_at
from graphdoc.program.container_entries import statements, statements_at
from graphdoc.program.spans import Moment, innermost_user, moment
from graphdoc.source.module import Function, Source, each, is_method_call, keyword, receiver_of
from graphdoc.source.paths import (
    bare_call,
    called,
    covers,
    is_in_place,
    is_name,
    is_path,
    is_read,
    key,
    last_word,
    pairs,
    sole_target,
    targets_of,
    without_subscripts,
    words,
)
from graphdoc.source.scopes import binds, is_list, is_read_later, is_torchs, parameters

# What the source says of an in-place write: its target, other names of that, and which operand was saved.


_SHARES = words(
    """
    view view_as reshape flatten unflatten squeeze unsqueeze expand expand_as permute transpose swapaxes movedim t
    narrow select chunk split unbind unfold diagonal detach contiguous to cuda cpu float double type type_as
    requires_grad_ get pop
    """
)
"""Methods that give the same memory, or may, or a part of it; and those that take an item out of a container."""
_VIEWS = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})


@dataclass(frozen=True)
class Target:
    """What a write goes into: ``path`` as the program spells it (``self.state``), empty where it is no plain path.

    ``sliced``: a part of the tensor is written. ``kept``: the path reaches it through an object, so it outlives the
    call. ``local``: a plain name is assigned again in the loop or function that writes. ``whole``: the write is a
    statement of its own, so nothing uses its value. ``parameter``: it is an argument of the function around.
    ``alias``: it is another name for such an argument (``out = x``). ``item``: the entry of a list that ``path`` stands
    for, which is the tensor.
    """

    path: str = ""
    sliced: bool = False
    kept: bool = False
    local: bool = False
    whole: bool = False
    parameter: bool = False
    alias: bool = False
    item: str = ""


def target_of(run: Evidence, frame: Frame | None) -> Target:
    """What the statement at this place writes into."""
    found = _write_at(run.sources, frame)
    if found is None or frame is None:
        return Target()
    source, owner, written = found
    sliced, item = False, ""
    node: ast.expr = written
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                break
            sliced = True
            item = ast.unparse(node) if is_list(source, node.value) else item
            node = node.value
        elif isinstance(node, ast.Attribute):
            if node.attr not in _VIEWS:
                break
            node = node.value
        elif is_method_call(node) and not is_torchs(source, node.func.value):
            if _SHARES.isdisjoint({node.func.attr}) and not node.func.attr.endswith("_"):
                return Target(sliced=sliced)  # what ``v.add(1)`` gave is written, and has no name
            node = node.func.value
        else:
            return Target(sliced=sliced)
    whole = isinstance(owner, ast.AugAssign | ast.Assign) or bare_call(owner) is not None
    if isinstance(owner, ast.Assign) and not any(isinstance(t, ast.Subscript) for t in owner.targets):
        whole = False
    if not isinstance(node, ast.Name):
        return Target(ast.unparse(node), sliced, True, False, whole)
    around = source.node_loop(owner) or source.node_function(owner)
    function = source.node_function(owner)
    parameter = function is not None and node.id in parameters(function)
    local = around is not None and binds(around, node.id, in_place=False)
    if function is not None and not local:
        # Bound before the loop: data of this call, unless the call is still running when backward fails.
        running = {f.function for f in run.raised.stack} if run.raised else set()
        local = frame.function not in running and binds(function, node.id, in_place=False)
    alias = function is not None and not parameter and _is_alias(function, node.id)
    return Target(node.id, sliced, False, local, whole, parameter, alias, item)


def _is_alias(function: Function, name: str) -> bool:
    """Whether all that a function binds to a name is one of its own arguments as it was passed."""
    bound = [n for n in each(function, ast.stmt) if any(key(t) == name for t in targets_of(n))]
    anew = (n for n in bound if not isinstance(n, ast.AugAssign))  # that is in place, for a tensor
    values = [n.value if isinstance(n, ast.Assign) and sole_target(n) else None for n in anew]
    given = [n for n in parameters(function) if not binds(function, n, in_place=False)]
    return bool(bound) and all(isinstance(v, ast.Name) and v.id in given for v in values)


def _write_at(sources: SourceTexts, frame: Frame | None) -> tuple[Source, ast.stmt, ast.expr] | None:
    """The statement at a place and the expression that it writes into."""
    source, owner, node = source_at(sources, frame), statement_at(sources, frame), expression_at(sources, frame)
    if isinstance(owner, ast.AugAssign):
        return source, owner, owner.target
    parts = [t for t in owner.targets if isinstance(t, ast.Subscript)] if isinstance(owner, ast.Assign) else []
    if owner is not None and parts and not isinstance(node, ast.Call):
        return source, owner, next((t for t in parts if t is node), parts[0])
    call = node if isinstance(node, ast.Call) else getattr(owner, "value", None)
    if owner is None or not isinstance(call, ast.Call):
        return None
    own = receiver_of(call) if called(call).endswith("_") else None
    own = None if own is not None and is_torchs(source, own) else own
    first = [a for a in call.args[:1] if not isinstance(a, ast.Starred)]
    written = keyword(call, "out") or own or next(iter(first), None)
    return (source, owner, written) if written is not None else None


def is_statement(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether an in-place write visibly stands at this place, rather than inside what is called there."""
    found, node = _write_at(sources, frame), expression_at(sources, frame)
    owner = found[1] if found is not None else None
    if isinstance(owner, ast.Assign) and not isinstance(node, ast.Call):
        return any(isinstance(t, ast.Subscript) for t in owner.targets)
    call = node if isinstance(node, ast.Call) else getattr(owner, "value", None)
    flagged = isinstance(call, ast.Call) and keyword(call, "inplace", "out") is not None
    named = called(call).endswith("_") and not called(call).startswith("_")
    return isinstance(owner, ast.AugAssign) or (owner is not None and (flagged or named))


def uses_gradient(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the statement at this place reads some ``.grad``: an update written by hand."""
    found = _write_at(sources, frame)
    return found is not None and any(n.attr == "grad" for n in each(found[1], ast.Attribute))


def operands_named(sources: SourceTexts, frame: Frame | None, name: str) -> list[str]:
    """The spellings of a tensor in the expression at this place: paths that end as ``name`` does (``self.queue``)."""
    last, found = _last(name), dict[str, None]()
    node: ast.AST | None = expression_at(sources, frame) or statement_at(sources, frame)
    todo = [node] if node is not None and last else []
    for part in todo:
        path = isinstance(part, ast.Attribute | ast.Name | ast.Subscript) and is_read(part)
        if path and _last(key(part)) == last:
            found[key(part)] = None
        else:
            todo += ast.iter_child_nodes(part)
    return list(found)


def _last(path: str) -> str:
    """The last step of a path with the keys behind it: ``queue`` of ``model.queue``, ``stats["h"]`` of itself."""
    head, bracket, keys = path.partition("[")
    return head.rpartition(".")[2] + (bracket + keys).replace('"', "'")


def bound_before(sources: SourceTexts, frame: Frame | None, name: str) -> Frame | None:
    """The last statement above this line, in the same function, that binds a plain name; None where that stands in a
    branch of which the line does not tell whether it was taken."""
    scope = scope_at(sources, frame)
    if frame is None or not name.isidentifier():
        return None
    above = (n for n in each(scope, ast.Assign, ast.AnnAssign, ast.For) if n.lineno < frame.line)
    found = [n for n in above if any(is_name(t, name) for t in targets_of(n))]
    for best in sorted(found, key=lambda n: n.lineno, reverse=True):
        sides = [(_side(t, best.lineno), _side(t, frame.line)) for t in each(scope, ast.If) if _side(t, best.lineno)]
        if not any(here and made != here for made, here in sides):  # else it is the other branch of one ``if``
            value = best.iter if isinstance(best, ast.For) else best.value
            at = frame_of(sources, frame, value if value is not None else best)
            return at if all(made == here for made, here in sides) else None
    return None


def _side(test: ast.If, line: int) -> str:
    """The branch of an ``if`` that a line stands in; empty where it stands in none."""
    if any(covers(s, line) for s in test.body):
        return "then"
    return "else" if any(covers(s, line) for s in test.orelse) else ""


def is_only_written(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether an expression is taken to be written into and no more: ``layer.bias.data.zero_()`` and
    ``nn.init.zeros_(layer.bias.data)`` as statements of their own. Nothing goes on from it."""
    source, node = source_at(sources, frame), expression_at(sources, frame)
    call = bare_call(source.node_owner(node)) if node is not None else None
    if call is None or node is None or not is_in_place(called(call)):
        return False
    return receiver_of(call) is node or (call.args[:1] == [node] and "init" in key(call.func).split(".")[:-1])


# Other names of a tensor that is written in place: who reads one of them later sees what was written.


def read_by_another_name(sources: SourceTexts, frame: Frame | None, name: str) -> str:
    """The name that is the same tensor as ``name`` at this place (``h = x`` or ``res = h`` above) and is read behind it
    in the same function, or ``name`` itself where the result of the write goes by another one; empty where there is
    none. Statements are taken in the order of their lines."""
    scope = function_at(sources, frame)
    if frame is None or scope is None or not name.isidentifier():
        return ""
    others: dict[str, None] = {}
    above = (s for s in statements(scope) if s.lineno < frame.line and not isinstance(s, ast.AugAssign))
    for statement in sorted(above, key=lambda s: s.lineno):  # that one is in place, for a tensor
        bound = {t.id for t in targets_of(statement) if isinstance(t, ast.Name)}
        others = {} if name in bound else {n: None for n in others if n not in bound}
        for target, value in pairs(statement):
            if isinstance(target, ast.Name) and isinstance(value, ast.Name) and name in (target.id, value.id):
                others[value.id if target.id == name else target.id] = None
    writing = [s for s in statements_at(sources, frame) if isinstance(s, ast.Assign)]
    if any(not any(is_name(without_subscripts(t), name) for t in targets_of(s)) for s in writing):
        others[name] = None  # the result goes by another name than what was written: ``h = act(x)``
    source, at = source_at(sources, frame), statement_at(sources, frame)
    return next((other for other in others if at is not None and is_read_later(source, at, other)), "")


# Which operand of an expression an operation has saved, by the name that PyTorch gives to what it saves.

_FIRST = frozenset({"self", "input"})
_SECOND = frozenset({"other", "mat2", "batch2", "vec", "tensor2"})
"""Names of arguments in derivatives.yaml (tools/autograd): the tensor itself, and the one that it is combined with."""
_MADE_OF = {
    "matmul": ("mm", "bmm", "mv", "dot"),
    "norm": ("linalgvectornorm",),
    "vector_norm": ("linalgvectornorm",),
    "square": ("pow",),
}
"""Functions that are recorded as another one (CompositeImplicitAutograd in native_functions.yaml)."""
_OPERATIONS = (ast.Mult, ast.MatMult, ast.Div)


def saved_operand(sources: SourceTexts, frame: Frame, op: str, attribute: str) -> Frame | None:
    """The place of the operand in the expression at a place; None where the expression is not the operation itself.

    ``op`` is the node's name (``MmBackward0``), ``attribute`` what it has saved (``_saved_self``, ``_saved_mat2``).
    """
    saved = attribute.removeprefix("_saved_")
    which = 0 if saved in _FIRST else 1 if saved in _SECOND else None
    source, node = source_at(sources, frame), expression_at(sources, frame)
    operands: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS):
        operands = [node.left, node.right]
    elif is_method_call(node) and _is(node.func.attr, op):
        library = is_torchs(source, node.func.value)
        operands = [*([] if library else [node.func.value]), *node.args]
    if which is None or which >= len(operands) or isinstance(operands[which], ast.Starred | ast.Constant):
        return None
    return frame_of(sources, frame, operands[which])


def _is(method: str, op: str) -> bool:
    """Whether a function or method of this name is the operation that the node is of, or is made of it."""
    name = op.partition("Backward")[0].lower()
    return method.replace("_", "") == name or name in _MADE_OF.get(method, ())


# Whose deed an operation under ``optimizer.step()`` is: the optimizer's own, or that of a closure given to it.

_AROUND = ("torch/utils/_contextlib.py", "torch/_compile.py", "torch/_dynamo/")
"""Files of PyTorch that only stand between a function and its caller: decorators, and what they are wrapped in."""


def _path(frame: Frame) -> str:
    return frame.file.replace("\\", "/")


def is_around(frame: Frame) -> bool:
    """Whether a frame is only what PyTorch puts around a function (``no_grad`` as a decorator, ``torch.compile``)."""
    return not frame.user and any(name in _path(frame) for name in _AROUND)


def is_optimizers(frame: Frame) -> bool:
    """Whether a frame is code of PyTorch's own optimizers."""
    return not frame.user and "torch/optim/" in _path(frame)


def _is_base(frame: Frame) -> bool:
    """Whether a frame is in the file of the base class, which holds the decorators of every step."""
    return not frame.user and _path(frame).endswith("torch/optim/optimizer.py")


def _is_wrapper(frame: Frame) -> bool:
    # Optimizer.profile_hook_step wraps the step of every optimizer class, the user's own too.
    return _is_base(frame) and frame.function.rpartition(".")[2] == "wrapper"


def own_step(sources: SourceTexts, stack: Sequence[Frame]) -> int:
    """The position in ``stack`` at which the step begins that did what its innermost frame does; -1 where none did.

    What lies above that position called the step. A closure that the step calls belongs to who wrote it, and so does a
    hook that the wrapper calls: between them and the engine an optimizer is only a caller.
    """
    start = next((i for i in range(len(stack) - 1, -1, -1) if _is_wrapper(stack[i])), -1)
    if start < 0:
        start = first = next((i for i, f in enumerate(stack) if is_optimizers(f)), -1)
    else:
        between = range(start + 1, len(stack))
        first = next((i for i in between if not is_around(stack[i]) and not _is_base(stack[i])), -1)
        if first < 0:
            return start  # the write is the wrapper's own
        if stack[first].function.rpartition(".")[2] != "step":
            return start if is_optimizers(stack[first]) else -1
    if first < 0:
        return -1
    inner = [f for f in stack[first + 1 :] if not is_around(f)]
    if is_optimizers(stack[first]):
        # PyTorch's optimizers call nothing outside of PyTorch but what they were given.
        return -1 if any(_is_foreign(f) for f in inner) else start
    users = [f for f in (stack[first], *inner) if f.user]
    if not stack[first].user:
        return -1 if users else start
    return -1 if any(_calls_argument(sources, f) for f in users) else start


def without_step(stack: Sequence[Frame]) -> list[Frame]:
    """A stack without the frame of a ``step`` of the user's own, where it runs within PyTorch's wrapper of it."""
    wrapped = [i for i, f in enumerate(stack) if _is_wrapper(f)]
    inner = next((i for i in range(wrapped[-1] + 1, len(stack)) if not is_around(stack[i])), -1) if wrapped else -1
    own = inner > 0 and stack[inner].user and stack[inner].function.rpartition(".")[2] == "step"
    return [f for i, f in enumerate(stack) if not (own and i == inner)]


def unrecorded_call(sources: SourceTexts, stack: Sequence[Frame], switch: Frame) -> Frame | None:
    """Where a step of the user's own calls its closure, if the switch that turned recording off is the step's own."""
    start = next((i for i in range(len(stack) - 1, -1, -1) if _is_wrapper(stack[i])), len(stack))
    step = next((f for f in stack[start + 1 :] if not is_around(f) and not _is_base(f)), None)
    function = bindings.function_at(sources, step)
    if step is None or function is None or step.file != switch.file or not _calls_argument(sources, step):
        return None
    first = bindings.first_line(function)
    return step if step.user and first <= switch.line <= (function.end_lineno or first) else None


def _is_foreign(frame: Frame) -> bool:
    path = _path(frame)
    return frame.user or ("-packages/" in path and "-packages/torch/" not in path)


def _calls_argument(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the expression that runs here calls what the function was given as an argument: ``closure()``."""
    node, function = bindings.expression_at(sources, frame), bindings.function_at(sources, frame)
    name = bindings.text_of(node.func) if isinstance(node, ast.Call) else ""
    return function is not None and name in parameters(function)


# Who wrote into a tensor: a step, load_state_dict, a library below the user's line, or the line itself.


class By(Enum):
    """Whose deed a write is."""

    STEP = "an optimizer's step"
    LOAD = "load_state_dict"
    LIBRARY = "code inside what the user's line calls"
    LINE = "the user's line itself"


@dataclass(frozen=True)
class Writer:
    """One place that wrote. ``frame`` is the user's line; ``op`` how the write is called (``Adam.step()``, ``add_``).

    ``event`` is the step, where one wrote; ``stale`` the first tensor that it is known to have written.
    """

    op: str
    frame: Frame | None
    stack: tuple[Frame, ...]
    by: By
    count: int
    version: int
    grad_mode: bool
    event: Event | None
    stale: Stale | None = None


def is_accumulation(writer: Writer) -> bool:
    """Whether the engine wrote, below no code of the user's: it adds to the ``.grad`` of a leaf in place, where one is
    there already (``AccumulateGrad``, torch/csrc/autograd/functions/accumulate_grad.h)."""
    below = [i for i, f in enumerate(writer.stack) if "_engine_run_backward" in f.function]
    return writer.op == "add_" and bool(below) and not any(f.user for f in writer.stack[below[-1] :])


def writers_of(
    sources: SourceTexts, events: list[Event], optimizers: list[Optimizer], stales: Sequence[Stale]
) -> list[Writer]:
    """The distinct places that wrote, those of the first stale tensor first, each set in the order of the writes."""
    out: list[Writer] = []
    seen: set[tuple[object, ...]] = set()
    for stale in stales:
        for w in sorted(stale.writes, key=lambda w: w.version):
            writer = writer_of(sources, events, optimizers, w)
            at = writer.frame
            key = (at.file, at.line, at.column, writer.by) if at else (writer.op,)
            if key not in seen:
                seen.add(key)
                out.append(replace(writer, stale=stale))
    return out


def writer_of(sources: SourceTexts, events: list[Event], optimizers: list[Optimizer], write: Write) -> Writer:
    """A write of the evidence with the user's line, and whether an optimizer or a library did it there."""
    stack = write.stack
    if write.op.endswith(".step") or (at := own_step(sources, stack)) >= 0:
        # An optimizer of the user's own steps inside PyTorch's wrapper: its caller is the line to show.
        outside = stack if write.op.endswith(".step") else stack[:at]
        frame = innermost_user(outside) or innermost_user(stack)
        op = write.op if write.op.endswith(".step") else _optimizer_type(events, optimizers, stack, frame)
        return _writer(events, write, f"{op}()", frame, By.STEP)
    frame = innermost_user(stack)
    functions = [f.function for f in stack if not f.user]
    if any("load_state_dict" in f for f in functions):
        return _writer(events, write, "load_state_dict()", frame, By.LOAD)
    below = stack[stack.index(frame) + 1 :] if stack and frame is not None else []
    inside = any(not f.user and not is_around(f) for f in below)  # not what PyTorch puts around every operator
    return _writer(events, write, write.op, frame, By.LIBRARY if inside else By.LINE)


def written(nodes: list[Node], writer: Writer) -> Moment | None:
    """When a write was made: with its step, else as early as it can be, behind the node that had saved the tensor."""
    saving = node_with(nodes, writer.stale.node) if writer.stale is not None else None
    at = moment(saving) if writer.event is None else moment(writer.event)
    return (at[0], at[1] + 1 + max(writer.version, 0)) if at is not None and writer.event is None else at


def _optimizer_type(
    events: list[Event], optimizers: list[Optimizer], stack: Sequence[Frame], frame: Frame | None
) -> str:
    named = next((f.function for f in reversed(stack) if is_optimizers(f) and f.function.endswith(".step")), "")
    event = _step_at(events, frame)
    known = optimizer_with(optimizers, event.optimizer) if event is not None else None
    return f"{known.type}.step" if known is not None else named or "Optimizer.step"


def _step_at(events: list[Event], frame: Frame | None) -> Event | None:
    steps = ((e, innermost_user(e.stack)) for e in reversed(events) if e.kind == "step")
    return next((e for e, at in steps if at is not None and frame is not None and at.start == frame.start), None)


def _writer(events: list[Event], write: Write, op: str, frame: Frame | None, by: By) -> Writer:
    event = event_with(events, write.event) if write.event >= 0 else None
    if by is By.STEP and event is None:
        event = _step_at(events, frame)
    return Writer(op, frame, tuple(write.stack), by, write.count, write.version, write.grad_mode, event)


def wrote_again(stale: Stale) -> bool:
    """Whether one place wrote the tensor more than once since it was saved."""
    times: Counter[tuple[str, int] | None] = Counter()
    for write in stale.writes:
        at = innermost_user(write.stack)
        times[(at.file, at.line) if at is not None else None] += write.count
    return any(n > 1 for n in times.values())


# The tensor that a write goes into where it is the item of a container: ``state[3]`` of ``state[3][:, i] = x``.

_ASSIGNABLE = frozenset({"list", "dict", "OrderedDict", "defaultdict"})
_ASSIGNING = ("CopySlices", "copy_", "fill_", "index_put_", "_impl_")
"""What the assignment of a tensor's slice runs."""


def entry_written(sources: SourceTexts, writer: Writer) -> str:
    """The item as the writing statement spells it; empty where the tensor is not seen to be one.

    ``state[3][:, i] = x`` writes into a part of ``state`` where that is a tensor, and into its item where it is a list;
    the source does not tell which. How the program reaches the written tensor does. So do the writes of ``state[i] +=
    x``: a tensor is then assigned its slice as well, an item is only added to.
    """
    frame, stale = writer.frame, writer.stale
    if frame is None or stale is None:
        return ""
    source, owner = source_at(sources, frame), bindings.statement_at(sources, frame)
    parts = [t for t in targets_of(owner) if isinstance(t, ast.Subscript)] if owner is not None else []
    if len(parts) != 1:
        return ""
    inner: ast.Subscript = parts[0]
    while isinstance(inner.value, ast.Subscript):
        inner = inner.value
    if inner is parts[0] and not isinstance(owner, ast.AugAssign):
        return ""  # the item itself is assigned again
    held = [h for h in stale.tensor.holders if h.exact]
    one = all(_is_item(h, inner) for h in held) if held else False
    if not is_path(inner.value) or not (one or (inner is parts[0] and _only_combined(stale, frame))):
        return ""
    return source.segment(inner)


def _only_combined(stale: Stale, frame: Frame) -> bool:
    """Whether each write at a place is the operation alone (``add_``), and no slice was assigned behind it."""
    there = [w.op for w in stale.writes if (at := innermost_user(w.stack)) is not None and at.start == frame.start]
    return bool(there) and _missing(stale) == 0 and not any(op.endswith(_ASSIGNING) for op in there)


def _is_item(holder: Holder, written: ast.Subscript) -> bool:
    """Whether a tensor is held as the item of a container of this name, by this key where the source tells it."""
    index = written.slice
    known = (repr(index.value), str(index.value)) if isinstance(index, ast.Constant) else None
    return is_in(holder, last_word(written.value)) and (known is None or holder.steps[-1].key in known)


def is_in(holder: Holder, name: str) -> bool:
    """Whether a tensor is held as an item of a list or dict of this name."""
    steps = holder.steps
    return len(steps) > 1 and steps[-2].type in _ASSIGNABLE and steps[-2].key.strip("'\"") == name


# Whether the writes that were seen account for the whole way from the version that was saved to the one found.

_UNEVEN = ("LBFGS.step",)
"""Steps that write as often as it takes to find the place (torch/optim/lbfgs.py), not equally often each time."""


def accounted(stale: Stale) -> bool:
    """Whether the known writes are proven to be all of them: each was seen, and together they make up the gap."""
    return bool(stale.writes) and all(w.certain and w.moved >= 0 for w in stale.writes) and _missing(stale) == 0


def plausible(stale: Stale) -> bool:
    """Whether the known writes can be all of them.

    An optimizer of which it is not known how often one step writes does so equally often in each.
    """
    missing = _missing(stale)
    unknown = [w for w in stale.writes if w.moved < 0]
    if any(w.op in _UNEVEN for w in unknown):
        return False
    steps = sum(w.count for w in unknown)
    return missing >= steps and missing % steps == 0 if steps else missing == 0


def _missing(stale: Stale) -> int:
    """Versions that are left when the known writes are taken away."""
    return stale.current - stale.expected - sum(w.moved * w.count for w in stale.writes if w.moved >= 0)
