"""Stacks of events, which happen once a step: read in one call, and nothing is left in the frames."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from sys import _getframe
from types import CodeType, FrameType
from typing import Any

from graphdoc.capture import stacks
from graphdoc.capture.stacks import Stack

Seen = tuple[Any, ...]
"""The stack of an event as it is noted: code and instruction of each running function, innermost first, up to the first
that has a ``Stack``, and that; None at the end if none has."""


class Look:
    """Reads stacks of events, which happen once a step: nothing is left in the frames, which would cost more.

    Between the program's own calls none of our code is in the processor's caches, so what counts is how much of it
    runs: one call of C, as long as the nearest caller with a stack is as far away as the last time.

    Args:
        one_way: PyTorch's own functions that begin the stack are those of the last time if the outermost of them is:
            ``Tensor.backward``, say, leads to the engine in one way. They are not read again.
    """

    FARTHEST = 7
    """Functions to be read in one call; it goes to each one anew from the innermost."""

    def __init__(self, one_way: bool = False) -> None:
        self._one_way = one_way
        self._read: Callable[[FrameType], Seen] | None = None
        self._begin: Seen = ()
        self._entry: CodeType | None = None
        self._skip = 0

    def __call__(self, depth: int = 1) -> Seen:
        """The stack of a running function: the caller's own, or that of one ``depth`` - 1 further out."""
        if self._read is not None:
            try:
                frame = _getframe(depth + self._skip)
                if self._entry is None or frame.f_code is self._entry:
                    seen = self._begin + self._read(frame)
                    if type(seen[-1]) is Stack:
                        return seen
            except (AttributeError, ValueError):
                pass  # there are fewer callers
        return self._whole(_getframe(depth))

    def _whole(self, frame: FrameType) -> Seen:
        out: list[Any] = []
        known = None
        torchs = 0
        outer: FrameType | None = frame
        while outer is not None:
            code = outer.f_code
            if self._one_way and torchs * 2 == len(out) and code.co_filename.startswith(stacks.torch_files):
                torchs += 1
            out.append(code)
            out.append(outer.f_lasti)
            known = outer.f_trace
            if type(known) is Stack:
                break
            known = None
            outer = outer.f_back
        length = len(out) // 2
        if torchs == length:
            torchs = 0  # the nearest stack is one of theirs
        if known is not None and length - torchs <= self.FARTHEST:
            self._skip = max(torchs - 1, 0)
            self._begin = tuple(out[: 2 * torchs])
            self._entry = out[2 * torchs - 2] if torchs else None
            backs = ["f_back." * i for i in range(torchs > 0, length - self._skip)]
            names = [back + name for back in backs for name in ("f_code", "f_lasti")]
            self._read = attrgetter(*names, backs[-1] + "f_trace")
        return (*out, known)


def stack_of_seen(seen: Seen) -> Stack:
    """The stack of an event, in the form of the others."""
    stack = Stack()
    stack.chain = [seen[0], *seen[2:]]
    stack.lasti = seen[1]
    return stack


def is_below(inner: Stack, outer: Stack) -> bool:
    """Whether one call was made below another: a custom Function's backward asks for gradients of its own."""
    of_inner, of_outer = inner.raw, outer.raw
    return len(of_inner) > len(of_outer) and of_inner[-len(of_outer) :] == of_outer
