"""Who wrote into a tensor: a step or a closure, a library, the line itself; do the writes account for its version?"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from graphdoc.evidence import (
    Event,
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
from graphdoc.program.bindings import source_at
from graphdoc.program.spans import Moment, innermost_user, moment
from graphdoc.source.paths import is_path, last_word, targets_of
from graphdoc.source.scopes import parameters

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


def entry_written(sources: SourceTexts, writer: Writer) -> str:
    """The item as the writing statement spells it; empty where the tensor is not seen to be one.

    ``state[3][:, i] = x`` writes into a part of ``state`` where that is a tensor, and into its item where it is a list;
    the source does not tell which. How the program reaches the written tensor does.
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
    if not is_path(inner.value) or not held or not all(_is_item(h, inner) for h in held):
        return ""
    return source.segment(inner)


def _is_item(holder: Holder, written: ast.Subscript) -> bool:
    """Whether a tensor is held as the item of a container of this name, by this key where the source tells it."""
    if len(holder.steps) < 2 or holder.steps[-2].type not in _ASSIGNABLE:
        return False
    (container, item), index = holder.steps[-2:], written.slice
    same = container.key.strip("'\"") == last_word(written.value)
    return same and (not isinstance(index, ast.Constant) or item.key in (repr(index.value), str(index.value)))


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
