"""Cheap stacks: where each node was made, kept as (code, instruction) pairs and turned into text only on demand.

Under anomaly mode PyTorch calls ``torch.fx.traceback.format_stack()`` for every node and keeps what it returns in
``node.metadata["traceback_"]``; it only iterates it when an error is printed (python_anomaly_mode.cpp). Formatting is
nearly all of anomaly mode's cost, so nothing is formatted here until somebody asks.

What remains is walking the frames, so callers are walked once for each running function, not once for each node: while
a function runs, the calls that led to it cannot change. They are remembered in its frame's ``f_trace``, a slot that
Python itself leaves unused unless the program is traced; it goes when the function returns, so nothing is kept alive.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from operator import attrgetter
from sys import _getframe, gettrace
from types import CodeType, FrameType, TracebackType
from typing import Any

from graphdoc.capture.places.code_places import OURS, entries_of, outwards, position
from graphdoc.capture.process.hooks import look_alike

RawStack = list[Any]
"""Alternating code objects and instruction offsets, innermost first."""

printed: list[Callable[[Stack], bool]] = []
"""Called with the stack that PyTorch is about to print, that of the very node whose backward failed; whether anybody
wants to read it."""

_RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE
"""Functions that go to sleep and may be woken by another caller: theirs must be looked up each time."""


class Stack:
    """What is kept for one node. As a sequence it is the lines that ``traceback.format_list`` would have given.

    The first stack of a running function stands in its frame's ``f_trace`` for the others to share its ``chain``; it is
    callable, as every ``f_trace`` has to be should tracing begin.
    """

    __slots__ = ("chain", "lasti")

    chain: Sequence[Any]
    """The code, then code and instruction of each call that led to it, and last the ``Stack`` of the function that made
    the outermost of these calls; None if no call is left."""
    lasti: int

    def __call__(self, *_: Any) -> None:
        return None

    @property
    def raw(self) -> RawStack:
        """The whole stack, innermost first."""
        chain = self.chain
        out: RawStack = [chain[0], self.lasti, *chain[1:-1]]
        while chain[-1] is not None:
            chain = chain[-1].chain
            out += chain[1:-1]
        return out

    def __iter__(self) -> Iterator[str]:
        # Every one is called.
        wanted = [hook(self) for hook in printed]
        return iter(_lines(self.raw) if all(wanted) else ())

    # torch._functorch treats what it finds in the metadata as the list that format_stack has always returned.
    def __len__(self) -> int:
        return len(_lines(self.raw))

    def __getitem__(self, index: Any) -> Any:
        return _lines(self.raw)[index]

    def copy(self) -> list[str]:
        return _lines(self.raw)


def _passed(*_: Any) -> None:
    """Left in a frame that was walked through once; only when that happens again are its callers remembered."""


_PASSED: Any = _passed


def format_stack() -> Stack:  # noqa: C901 (a call costs more than all these questions)
    """Stands in for ``torch.fx.traceback.format_stack``; runs once for every node, so it does nothing but look.

    Most functions are called by one with a stack; or by a module that such a one calls; or there is one more between
    the function and the module. These ways are read at one go, ``_walk`` does the others. Each says how it ends: to
    share the end costs more. The interpreter is quicker with type(x) than with x.__class__, and without asking whether
    there is a caller. A caller with a stack was not traced when it got it, and a debugger that stops there since has
    put its own function in the place.
    """
    global _running
    try:
        frame = _getframe(1)
        mine: Any = frame.f_trace
        lasti = frame.f_lasti
        if mine is _running and lasti == mine.lasti:
            return mine
        if _tracing["should_preserve_node_meta"]:
            return _original()  # type: ignore[no-any-return]
        stack = Stack()
        stack.lasti = lasti
        if type(mine) is Stack:
            _running = _NOTHING
            stack.chain = mine.chain
            return stack
        _running = stack
        try:
            outer: Any = frame.f_back
            code = outer.f_code
            if code is _call_code:
                wrapper = outer.f_back
                caller = wrapper.f_back
                known = caller.f_trace
                if type(known) is Stack:
                    at, way, by = wrapper.f_code, wrapper.f_lasti, known.chain[0]
                    stack.chain = (frame.f_code, code, outer.f_lasti, at, way, by, caller.f_lasti, known)
                    if mine is None or mine is _PASSED:
                        frame.f_trace = stack
                    return stack
            else:
                known = outer.f_trace
                if type(known) is Stack:
                    first = frame.f_code
                    stack.chain = (first, code, outer.f_lasti, known)
                    if (mine is None or mine is _PASSED) and not first.co_flags & _RESUMED:
                        frame.f_trace = stack
                    return stack
                call = outer.f_back
                if known is None and call.f_code is _call_code:
                    wrapper = call.f_back
                    caller = wrapper.f_back
                    known = caller.f_trace
                    if type(known) is Stack:
                        first, to, by = frame.f_code, call.f_lasti, known.chain[0]
                        at, way, last = wrapper.f_code, wrapper.f_lasti, caller.f_lasti
                        stack.chain = (first, code, outer.f_lasti, _call_code, to, at, way, by, last, known)
                        outer.f_trace = _PASSED
                        if (mine is None or mine is _PASSED) and not first.co_flags & _RESUMED:
                            frame.f_trace = stack
                        return stack
        except AttributeError:
            pass  # there are fewer callers
        return _walk(frame, stack)
    except ValueError:
        return nowhere()
    except RecursionError:
        _running = _NOTHING
        try:
            give_way[0](False)
        except RecursionError:
            pass
        return _UNKNOWN


_NOTHING = Stack()
_running = _NOTHING
"""The stack of a function's first node, until another is made elsewhere. It serves all nodes of the one operation
(``LSTMCell`` makes a dozen); later nodes have their own, because by its stack the node that failed is known."""


give_way: list[Any] = [bool]
"""Called with False where Python's recursion limit leaves no room for a stack: what switches recording off, so that the
program gets as deep as it would without us. A function of C, because there is no room for one of Python."""
_UNKNOWN = Stack()
"""For a node that is made there."""


def another_call() -> None:
    """A backward call begins: what is made after it has its own stack, even by an expression that is run again."""
    global _running
    _running = _NOTHING


def nowhere() -> Stack:
    """For a node that the engine makes in a thread of its own, where no Python function runs."""
    stack = Stack()
    stack.chain, stack.lasti = [nowhere.__code__, None], -1
    return stack


_UNKNOWN.chain, _UNKNOWN.lasti = [format_stack.__code__, None], -1
_tracing: dict[str, Any] = {"should_preserve_node_meta": False}
_original: Callable[[], Any] = list
torch_files = "<"
_call_code: CodeType | None = None
"""``Module._call_impl``, which ``Module._wrapped_call_impl`` calls: two frames between a module and its caller."""


def stand_in(torch: Any) -> Callable[[], None]:
    """Take the place of PyTorch's formatter (not of what it does while torch.fx traces); returns what undoes it."""
    global _tracing, _original, _call_code, torch_files
    import torch.fx.traceback as module

    original = _original = module.format_stack
    if "should_preserve_node_meta" in vars(module):
        _tracing = vars(module)
    torch_files = os.path.dirname(str(torch.__file__)) + os.sep
    _call_code = getattr(getattr(torch.nn.Module, "_call_impl", None), "__code__", None)
    module.format_stack = look_alike(format_stack, original)

    def undo() -> None:
        module.format_stack = original

    return undo


def stack_here(depth: int = 1) -> Stack:
    """The caller's stack, leaving out ``depth`` innermost frames (1: the caller's own frame is the innermost one)."""
    return stack_of_frame(_getframe(depth))


def stack_of_frame(frame: FrameType) -> Stack:
    """The stack of a function that is running."""
    global _running
    stack = Stack()
    stack.lasti = frame.f_lasti
    known: Any = frame.f_trace
    if type(known) is Stack:
        stack.chain = known.chain
        return stack
    _running = stack
    return _walk(frame, stack)


def _walk(frame: FrameType, stack: Stack) -> Stack:
    """The stack of a function that has none yet, down to the nearest caller's, whoever is among the callers.

    A caller is given a stack when it calls a module (it will call more of them), or is passed for the second time. No
    recursion: the program may be near its limit.
    """
    # Only a frame that nobody traces is ours to mark.
    free = gettrace() is None
    mine = frame.f_trace
    chain: RawStack = [frame.f_code]
    stack.chain = chain
    made = [(frame, stack)] if free and (mine is None or mine is _PASSED) else []
    known: Any = None
    outer = frame.f_back
    while outer is not None:
        code = outer.f_code
        again = False
        if code is _call_code and (wrapper := outer.f_back) is not None and (caller := wrapper.f_back) is not None:
            chain += (code, outer.f_lasti, wrapper.f_code, wrapper.f_lasti)
            outer = caller
            code = outer.f_code
            again = outer.f_trace is None
        known = outer.f_trace
        chain += (code, outer.f_lasti)
        if type(known) is Stack:
            break
        if free:
            if again or known is _PASSED:
                new = Stack()
                new.lasti = -1
                chain.append(new)
                chain = new.chain = [code]
                made.append((outer, new))
            elif known is None:
                outer.f_trace = _PASSED
        known = None
        outer = outer.f_back
    chain.append(known)
    for at, its in made:
        if not its.chain[0].co_flags & _RESUMED:
            at.f_trace = its
    return stack


def forget_here() -> None:
    """Take our marks out of the frames that are running now, when observation ends before the program does."""
    for frame in outwards(_getframe(1)):
        if frame.f_trace is _PASSED or isinstance(frame.f_trace, Stack):
            frame.f_trace = None


def stack_of_traceback(tb: TracebackType | None) -> RawStack:
    """A traceback in the same form (innermost first)."""
    return [x for entry in [*entries_of(tb)][::-1] for x in (entry.tb_frame.f_code, entry.tb_lasti)]


def _lines(raw: RawStack) -> list[str]:
    summary = []
    for i in range(len(raw) - 2, -1, -2):
        code, lasti = raw[i], raw[i + 1]
        if not code.co_filename.startswith(OURS):
            line = position(code, lasti)[0]
            summary.append(traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False))
    return traceback.format_list(summary)


# Stacks of events, which happen once a step: read in one call, and nothing is left in the frames.

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
            if self._one_way and torchs * 2 == len(out) and code.co_filename.startswith(torch_files):
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


# The stack that is kept with a node: put there, found again, hidden from what PyTorch prints.


def keep_in(node: Any) -> None:
    """For ``torch.autograd.graph.node_creation_hook``: keep the stack where anomaly mode would have kept it."""
    node.metadata["traceback_"] = stack_here(2)


_HIDDEN = "graphdoc_stack"
_FUNCTIONS = "torch.autograd.function"


def hide_in(node: Any) -> None:
    """Keep a node's stack where PyTorch does not print it."""
    metadata = node.metadata
    kept = metadata.pop("traceback_", None)
    if kept is not None:
        metadata[_HIDDEN] = kept
        metadata.pop("parent_", None)


def made_in_backward(stack: Stack, engine: CodeType | None) -> bool:
    """Whether a node with this stack was made while a backward call ran, through ``engine`` or in a thread of its own.

    In such a thread (of another device) no Python function runs, or that of a custom Function is the outermost.
    """
    raw = stack.raw
    outermost = raw[-2].co_filename
    return raw[0] is nowhere.__code__ or engine in raw[::2] or outermost == sys.modules[_FUNCTIONS].__file__


def disown(stack: Stack) -> None:
    """Let the nodes that have this stack forget in which other node's backward they were made.

    PyTorch keeps that under anomaly mode, prints it after the stack, and up to 2.13 never gives back the references
    that it takes to the nodes named (PyDict_GetItemStringRef in python_anomaly_mode.cpp): a graph whose backward fails,
    or is broken off as nested checkpoints are at every step, would never be freed. Called while the stack is printed.
    """
    for metadata in _metadata_with(stack):
        metadata.pop("parent_", None)


def _metadata_with(stack: Stack) -> list[dict[Any, Any]]:
    """Found by way of the garbage collector; as a rule among the few objects that it has not seen often yet."""

    def those(objects: Iterable[Any]) -> list[dict[Any, Any]]:
        return [o for o in objects if type(o) is dict and o.get("traceback_") is stack]

    return those(gc.get_objects(0)) or those(gc.get_objects(1)) or those(gc.get_referrers(stack))


def is_known(kept: Any) -> bool:
    """Whether what was kept for a node tells where it was made. Of a ``Stack`` that is not asked by its length, for
    which it is made into text."""
    return isinstance(kept, Stack) or (isinstance(kept, list) and bool(kept))


def kept_in(node: Any) -> Any:
    """What was kept for this node: a ``Stack``, or where that was not possible the lines of anomaly mode's own text."""
    kept = node.metadata.get("traceback_")
    return node.metadata.get(_HIDDEN) if kept is None else kept


def stack_of(node: Any) -> Stack | None:
    """Where this node was made; None where that was not kept, or as anomaly mode's text alone."""
    kept = kept_in(node)
    return kept if isinstance(kept, Stack) else None
