"""Whose deed an operation under ``optimizer.step()`` is: the optimizer's own, or that of a closure given to it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import line_text
from graphdoc.source.module import Source
from graphdoc.source.places import Place

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
    if step is None or not step.user or step.file != switch.file or not _calls_argument(sources, step):
        return None
    root = bindings.tree(sources, step.file)
    function = bindings.function_around(root, step.line) if root is not None else None
    if function is None:
        return None
    first = bindings.first_line(function)
    return step if first <= switch.line <= (function.end_lineno or first) else None


def _is_foreign(frame: Frame) -> bool:
    path = _path(frame)
    return frame.user or ("-packages/" in path and "-packages/torch/" not in path)


def _calls_argument(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the expression that runs here calls what the function was given as an argument: ``closure()``."""
    text = sources.get(frame.file)
    if text is None:
        return "closure()" in line_text(sources, frame)
    source = Source(frame.file, text)
    node = source.node_expression(Place.of(frame))
    function = source.node_function(node) if isinstance(node, ast.Call) else None
    if function is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(a.arg == node.func.id for a in arguments)
