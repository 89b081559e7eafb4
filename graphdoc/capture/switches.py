"""Where grad mode was switched off: the ``with`` line or the decorator line, not the place inside torch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CodeType, FrameType
from typing import Any

from graphdoc.capture import event_stacks
from graphdoc.capture.code_places import is_user_file, shown_file
from graphdoc.capture.frames import frames_of
from graphdoc.capture.inserted_calls import CannotInsert, insert_calls
from graphdoc.evidence import Frame

Place = tuple[str, event_stacks.Seen, Any]
"""(kind, stack, the decorated function or None)."""
MOST_OPEN = 1_000
"""A program that switches off for ever in a loop is not remembered beyond this."""
MOST_PASSED = 1_000
"""Functions of the library that are known for switching on their own account."""


class _Open(threading.local):
    """The switches that are open in this thread, innermost last: grad mode belongs to a thread."""

    def __init__(self) -> None:
        self.places: list[tuple[int, Place]] = []


class _Where:
    """Reads where a switch is thrown, and which function is decorated with it, from within what is inserted there."""

    def __init__(self) -> None:
        self._look = event_stacks.Look()
        self._plain: CodeType | None = None
        """The last function that threw one and is no decorator's."""

    def __call__(self) -> tuple[event_stacks.Seen, Any]:
        seen = self._look(4)  # __call__ < before < __enter__ or __init__ < who called it
        if seen[0] is self._plain:
            return seen, None
        function = _decorated(sys._getframe(2))
        if function is None:
            self._plain = seen[0]
        return seen, function


class Switches:
    """The grad-mode switches that are open now, innermost last, and the last one of each kind that was open.

    A training loop may switch at every step, or at every action that it samples, so what runs here does little.
    """

    def __init__(self, torch: Any) -> None:
        self._open = _Open()
        self.last: dict[str, Place] = {}
        self.undo: list[Any] = []
        self.degraded: list[str] = []
        grad_mode = torch.autograd.grad_mode
        for kind in ("no_grad", "inference_mode"):
            switch = getattr(grad_mode, kind)
            self._insert(switch.__enter__, kind, self._entering(kind))
            self._insert(switch.__exit__, kind, partial(self._left, kind))
        # Called as a function it switches at once, and nothing need ever switch back.
        self._insert(grad_mode.set_grad_enabled.__init__, "set_grad_enabled", self._setting())
        for function in (grad_mode.set_grad_enabled.__exit__, grad_mode.set_grad_enabled.__call__):
            self._insert(function, "set_grad_enabled", partial(self._left, "set_grad_enabled"))

    def _insert(self, function: Any, kind: str, before: Callable[..., None]) -> None:
        try:
            self.undo.append(insert_calls(function, before=before))
        except CannotInsert as e:
            self.degraded.append(f"{kind} was not observed: {e}")

    def _entering(self, kind: str) -> Callable[..., None]:
        where = _Where()

        def before(this: Any, *_: Any) -> None:
            try:
                if kind != "inference_mode" or this.mode:
                    self._opened(this, (kind, *where()))
            except Exception:
                self.degraded.append(f"a switch of {kind} was not observed")

        return before

    def _setting(self) -> Callable[..., None]:
        where = _Where()
        passed: dict[int, CodeType] = {}

        def before(this: Any, mode: Any, *_: Any) -> None:
            try:
                caller = sys._getframe(2).f_code  # before < __init__ < who called it
                if id(caller) in passed:
                    return
                # no_grad is made of this, and an optimizer's step uses it; a decorator has it copied by ``clone``.
                if not is_user_file(caller.co_filename) and caller.co_name != "clone":
                    if len(passed) < MOST_PASSED:
                        passed[id(caller)] = caller  # kept, so that its id stays its own
                elif mode:
                    self._close(lambda _, place: place[0] == "set_grad_enabled")
                else:
                    self._opened(this, ("set_grad_enabled", *where()))
            except Exception:
                self.degraded.append("a switch of set_grad_enabled was not observed")

        return before

    def _opened(self, this: Any, place: Place) -> None:
        places = self._open.places
        if len(places) > MOST_OPEN:
            del places[0]
        places.append((id(this), place))
        self.last[place[0]] = place

    def _left(self, kind: str, this: Any, *_: Any) -> None:
        try:
            if self._open.places:
                # An id alone may be another's by now: a function call that switches leaves no object behind.
                self._close(lambda ident, place: ident == id(this) and place[0] == kind)
        except Exception:
            self.degraded.append(f"a switch of {kind} was not observed")

    def _close(self, matches: Callable[[int, Place], bool]) -> None:
        """Forget the innermost switch of these, and all that were opened within it."""
        places = self._open.places
        for i in range(len(places) - 1, -1, -1):
            if matches(*places[i]):
                del places[i:]
                break

    def in_force(self, inference: bool) -> Place | None:
        """The switch by which nothing is recorded now: inference mode, while it is on, is stronger than the others."""
        places = [place for _, place in self._open.places]
        fitting = [p for p in places if (p[0] == "inference_mode") == inference]
        return next(reversed(fitting or places), None)


def _decorated(frame: FrameType | None) -> Any:
    """The function that ``@torch.no_grad()`` decorates, when the switch was thrown by torch's decorator wrapper."""
    for _ in range(3):
        if frame is None:
            return None
        if wraps_decorated(frame.f_code):
            return frame.f_locals.get("func")
        frame = frame.f_back
    return None


def wraps_decorated(code: CodeType) -> bool:
    """Whether this is the function that torch's decorators put around the decorated one (torch/utils/_contextlib.py).

    Its name was ``decorate_context`` until PyTorch 2.14, and is that of the context manager since.
    """
    return "func" in code.co_freevars and code.co_filename.replace("\\", "/").endswith("torch/utils/_contextlib.py")


def is_users(place: Place) -> bool:
    """Whether the user's code threw this switch, by a block, a call or a decorator, rather than a library inside."""
    _, seen, function = place
    code = getattr(function, "__code__", None) or seen[0]
    return is_user_file(code.co_filename)


def frames_of_place(place: Place, cwd: str) -> list[Frame]:
    """Frames of a switch; for a decorated function the innermost frame is the decorator's line."""
    _, seen, function = place
    frames = frames_of(event_stacks.stack_of_seen(seen), cwd)
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType) and is_user_file(code.co_filename):
        # co_firstlineno is the line of the first decorator (CPython 3.8 and later).
        line = code.co_firstlineno
        frames = [f for f in frames if f.user]
        frames.append(Frame(shown_file(code.co_filename, cwd), line, 0, line, 0, code.co_name))
    return frames
