"""Cheap stacks: where each graph node was made, kept as (code, instruction) pairs and turned into text only on demand.

Under anomaly mode PyTorch calls ``torch.fx.traceback.format_stack()`` for every node and keeps what it returns in
``node.metadata["traceback_"]``; it only iterates it when an error is printed (python_anomaly_mode.cpp). Formatting is
nearly all of anomaly mode's cost, so nothing is formatted here until somebody asks.

What remains is walking the frames, so callers are walked once for each running function, not once for each node: while
a function runs, the calls that led to it cannot change. They are remembered in its frame's ``f_trace``, a slot that
Python itself leaves unused unless the program is traced; it goes when the function returns, so nothing is kept alive.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from operator import attrgetter
from sys import _getframe, gettrace
from types import CodeType, FrameType, TracebackType
from typing import Any

from graphdoc.capture.places import OURS, position

RawStack = list[Any]
"""Alternating code objects and instruction offsets, innermost first."""

printed: list[Callable[[Stack], None]] = []
"""Called with the stack that PyTorch is about to print: that of the very node whose backward failed."""

_RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE
"""Functions that go to sleep and may be woken by another caller: theirs must be looked up each time."""


class Stack:
    """What is kept for one node. As a sequence it is the lines that ``traceback.format_list`` would have given.

    The first stack of a running function stands in its frame's ``f_trace`` for the others to share its ``chain``; it is
    callable, as every ``f_trace`` has to be should tracing begin.
    """

    __slots__ = ("chain", "lasti", "outer")

    chain: RawStack
    """The code, then code and instruction of each call that led to it; the last of these is in ``outer``'s function."""
    lasti: int
    outer: Stack | None

    def __call__(self, *_: Any) -> None:
        return None

    @property
    def raw(self) -> RawStack:
        """The whole stack, innermost first."""
        chain = self.chain
        out: RawStack = [chain[0], self.lasti, *chain[1:]]
        outer = self.outer
        while outer is not None:
            out += outer.chain[1:]
            outer = outer.outer
        return out

    def __iter__(self) -> Iterator[str]:
        for hook in printed:
            hook(self)
        return iter(_lines(self.raw))

    # torch._functorch treats what it finds in the metadata as the list that format_stack has always returned.
    def __len__(self) -> int:
        return len(_lines(self.raw))

    def __getitem__(self, index: Any) -> Any:
        return _lines(self.raw)[index]

    def copy(self) -> list[str]:
        return _lines(self.raw)


class _Passed:
    """Left in a frame that was walked through once; only when that happens again are its callers remembered."""

    __slots__ = ()

    def __call__(self, *_: Any) -> None:
        return None


_PASSED = _Passed()


def format_stack() -> Stack:
    """Stands in for ``torch.fx.traceback.format_stack``; runs once for every node, so it does nothing but look."""
    global _running
    try:
        frame = _getframe(1)
    except ValueError:
        return _nowhere()
    known = frame.f_trace
    lasti = frame.f_lasti
    if known is _running and lasti == known.lasti:
        return known
    if _tracing["should_preserve_node_meta"]:
        return _original()  # type: ignore[no-any-return]
    # The interpreter is quicker with type(x) than with x.__class__; here and below this counts.
    if type(known) is not Stack:
        return _walk(frame, known)
    _running = _NOTHING
    # Filling the slots here is cheaper than a call of __init__.
    stack = Stack()
    stack.lasti = lasti
    stack.chain = known.chain
    stack.outer = known.outer
    return stack


_NOTHING = Stack()
_running = _NOTHING
"""The stack of a function's first node, until another is made elsewhere. It serves all nodes of the one operation
(``LSTMCell`` makes a dozen); later nodes have their own, because by its stack the node that failed is known."""


def another_call() -> None:
    """A backward call begins: what is made after it has its own stack, even by an expression that is run again."""
    global _running
    _running = _NOTHING


def _nowhere() -> Stack:
    """For a node that the engine makes in a thread of its own, where no Python function runs."""
    stack = Stack()
    stack.chain, stack.lasti, stack.outer = [_nowhere.__code__], -1, None
    return stack


_tracing: dict[str, Any] = {"should_preserve_node_meta": False}
_original: Callable[[], Any] = list
_call_code: CodeType | None = None
"""``Module._call_impl``, which ``Module._wrapped_call_impl`` calls: two frames between a module and its caller."""


def stand_in(torch: Any) -> Callable[[], None]:
    """Take the place of PyTorch's formatter (not of what it does while torch.fx traces); returns what undoes it."""
    global _tracing, _original, _call_code
    import torch.fx.traceback as module

    original = _original = module.format_stack
    if "should_preserve_node_meta" in vars(module):
        _tracing = vars(module)
    _call_code = getattr(getattr(torch.nn.Module, "_call_impl", None), "__code__", None)
    module.format_stack = format_stack  # type: ignore[assignment]

    def undo() -> None:
        module.format_stack = original

    return undo


def keep_in(node: Any) -> None:
    """For ``torch.autograd.graph.node_creation_hook``: keep the stack where anomaly mode would have kept it."""
    node.metadata["traceback_"] = stack_here(2)


_HIDDEN = "graphdoc_stack"


def hide_in(node: Any) -> None:
    """Keep a node's stack where PyTorch does not print it."""
    kept = node.metadata.pop("traceback_", None)
    if kept is not None:
        node.metadata[_HIDDEN] = kept


def kept_in(node: Any) -> Any:
    """What was kept for this node: a ``Stack``, or where that was not possible the lines of anomaly mode's own text."""
    kept = node.metadata.get("traceback_")
    return node.metadata.get(_HIDDEN) if kept is None else kept


def stack_here(depth: int = 1) -> Stack:
    """The caller's stack, leaving out ``depth`` innermost frames (1: the caller's own frame is the innermost one)."""
    return stack_of_frame(_getframe(depth))


Seen = tuple[Any, ...]
"""The stack of an event as it is noted: code and instruction of each running function, innermost first, up to the first
that has a ``Stack``, and that; None at the end if none has."""


class Look:
    """Reads stacks of events, which happen once a step: nothing is left in the frames, which would cost more.

    Between the program's own calls none of our code is in the processor's caches, so what counts is how much of it
    runs. As long as the nearest caller with a stack is as far away as the last time, the reading is one call of C.
    """

    FARTHEST = 7
    """Functions to be read in one call; it goes to each one anew from the innermost."""

    def __init__(self) -> None:
        self._read: Callable[[FrameType], Seen] | None = None

    def __call__(self, frame: FrameType) -> Seen:
        """The stack of a function that is running."""
        if self._read is not None:
            try:
                seen = self._read(frame)
                if type(seen[-1]) is Stack:
                    return seen
            except AttributeError:
                pass  # there are fewer callers
        out: list[Any] = []
        known = None
        outer: FrameType | None = frame
        while outer is not None:
            out.append(outer.f_code)
            out.append(outer.f_lasti)
            known = outer.f_trace
            if type(known) is Stack:
                break
            known = None
            outer = outer.f_back
        out.append(known)
        length = len(out) // 2
        if known is not None and length <= self.FARTHEST:
            backs = ["f_back." * i for i in range(length)]
            names = [back + name for back in backs for name in ("f_code", "f_lasti")]
            self._read = attrgetter(*names, backs[-1] + "f_trace")
        return tuple(out)


def stack_of_seen(seen: Seen) -> Stack:
    """The stack of an event, in the form of the others."""
    stack = Stack()
    stack.chain = [seen[0], *seen[2:-1]]
    stack.lasti = seen[1]
    stack.outer = seen[-1]
    return stack


def stack_of_frame(frame: FrameType) -> Stack:
    """The stack of a function that is running."""
    known = frame.f_trace
    if type(known) is not Stack:
        return _walk(frame, known)
    stack = Stack()
    stack.lasti = frame.f_lasti
    stack.chain = known.chain
    stack.outer = known.outer
    return stack


def _walk(frame: FrameType, mine: Any) -> Stack:
    """The stack of a function that has none yet (but ``mine`` in its ``f_trace``), down to the nearest caller's.

    A caller is given one when it calls a module (it will call more of them), or is passed for the second time. No
    recursion: the program may be near its limit.
    """
    global _running
    free = gettrace() is None
    stack = Stack()
    stack.lasti = frame.f_lasti
    chain = stack.chain = [frame.f_code]
    inner = stack
    made: list[tuple[FrameType, Stack]] = []
    known: Any = None
    outer = frame.f_back
    while outer is not None:
        code = outer.f_code
        again = False
        if code is _call_code and (wrapper := outer.f_back) is not None and (caller := wrapper.f_back) is not None:
            chain.append(code)
            chain.append(outer.f_lasti)
            chain.append(wrapper.f_code)
            chain.append(wrapper.f_lasti)
            outer = caller
            code = outer.f_code
            again = True
        chain.append(code)
        chain.append(outer.f_lasti)
        known = outer.f_trace
        if type(known) is Stack:
            break
        if free:
            if known is _PASSED or (again and known is None):
                inner.outer = inner = Stack()
                inner.lasti = -1
                chain = inner.chain = [code]
                made.append((outer, inner))
            elif known is None:
                outer.f_trace = _PASSED
        known = None
        outer = outer.f_back
    inner.outer = known
    for at, its in made:
        if not its.chain[0].co_flags & _RESUMED:
            at.f_trace = its
    if free and (mine is None or mine is _PASSED) and not stack.chain[0].co_flags & _RESUMED:
        frame.f_trace = stack
    _running = stack
    return stack


def forget_here() -> None:
    """Take our marks out of the frames that are running now, when observation ends before the program does."""
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if isinstance(frame.f_trace, Stack | _Passed):
            frame.f_trace = None
        frame = frame.f_back


def stack_of_traceback(tb: TracebackType | None) -> RawStack:
    """A traceback in the same form (innermost first)."""
    pairs = []
    while tb is not None:
        pairs.append((tb.tb_frame.f_code, tb.tb_lasti))
        tb = tb.tb_next
    return [x for pair in reversed(pairs) for x in pair]


def _lines(raw: RawStack) -> list[str]:
    summary = []
    for i in range(len(raw) - 2, -1, -2):
        code, lasti = raw[i], raw[i + 1]
        if not code.co_filename.startswith(OURS):
            line = position(code, lasti)[0]
            summary.append(traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False))
    return traceback.format_list(summary)
