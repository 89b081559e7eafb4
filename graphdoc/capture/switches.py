"""Where grad mode was switched off: the ``with`` line or the decorator line, not the place inside torch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from graphdoc.capture import stacks
from graphdoc.capture.frames import frames_of
from graphdoc.capture.places import is_user_file, shown_file
from graphdoc.capture.weave import CannotWeave, weave
from graphdoc.evidence import Frame

Place = tuple[str, stacks.Stack, Any]
"""(kind, stack, the decorated function or None)."""
MOST_OPEN = 1_000
"""A program that switches off for ever in a loop is not remembered beyond this."""


class _Open(threading.local):
    """The switches that are open in this thread, innermost last: grad mode belongs to a thread."""

    def __init__(self) -> None:
        self.places: list[tuple[int, Place]] = []


class Switches:
    """The grad-mode switches that are open now, innermost last, and the last one of each kind that was open."""

    def __init__(self, torch: Any) -> None:
        self._open = _Open()
        self.last: dict[str, Place] = {}
        self.undo: list[Any] = []
        self.degraded: list[str] = []
        grad_mode = torch.autograd.grad_mode
        self._file = grad_mode.__file__
        self._weave(grad_mode.no_grad, "__enter__", self._entered, "no_grad")
        self._weave(grad_mode.no_grad, "__exit__", self._left, "no_grad")
        self._weave(grad_mode.inference_mode, "__enter__", self._entered, "inference_mode")
        self._weave(grad_mode.inference_mode, "__exit__", self._left, "inference_mode")
        # Called as a function it switches at once, and nothing need ever switch back.
        self._weave_before(grad_mode.set_grad_enabled, "__init__", self._setter(), "set_grad_enabled")
        for name in ("__exit__", "__call__"):
            self._weave(grad_mode.set_grad_enabled, name, self._left, "set_grad_enabled")

    def _weave(self, cls: Any, name: str, call: Callable[..., None], kind: str) -> None:
        def before(*values: Any) -> None:
            try:
                call(kind, *values)
            except Exception:
                self.degraded.append(f"a switch of {kind} was not observed")

        self._weave_before(cls, name, before, kind)

    def _weave_before(self, cls: Any, name: str, before: Callable[..., None], kind: str) -> None:
        try:
            self.undo.append(weave(getattr(cls, name), before=before))
        except CannotWeave as e:
            self.degraded.append(f"{kind} was not observed: {e}")

    def _entered(self, kind: str, this: Any, *_: Any) -> None:
        if getattr(this, "mode", True):
            self._open_here(kind, this)

    def _setter(self) -> Callable[..., None]:
        passed: CodeType | None = None

        def before(this: Any, mode: Any, *_: Any) -> None:
            nonlocal passed
            caller = sys._getframe(2).f_code  # before < __init__ < who called it
            if caller is passed:
                return
            try:
                # no_grad is made of this, and an optimizer's step uses it; a decorator has it copied by ``clone``.
                if is_user_file(caller.co_filename) or caller.co_name == "clone":
                    self._set("set_grad_enabled", this, mode)
                else:
                    passed = caller
            except Exception:
                self.degraded.append("a switch of set_grad_enabled was not observed")

        return before

    def _set(self, kind: str, this: Any, mode: Any) -> None:
        if not mode:
            self._open_here(kind, this)
        elif any(place[0] == kind for _, place in self._open.places):
            self._close(lambda _, place: place[0] == kind)

    def _open_here(self, kind: str, this: Any) -> None:
        frame = sys._getframe(3)  # _open_here < _entered or _set < before < __enter__ or __init__
        place = (kind, stacks.stack_of_frame(frame.f_back or frame), _decorated(frame))
        places = self._open.places
        if len(places) > MOST_OPEN:
            del places[0]
        places.append((id(this), place))
        self.last[kind] = place

    def _left(self, kind: str, this: Any, *_: Any) -> None:
        if self._open.places:
            self._close(lambda ident, place: ident == id(this) and place[0] == kind)

    def _close(self, matches: Callable[[int, Place], bool]) -> None:
        places = self._open.places
        for i in range(len(places) - 1, -1, -1):
            if matches(*places[i]):
                del places[i:]
                break

    def innermost(self) -> Place | None:
        """The switch that is in force in this thread, as far as it is the user's."""
        places = self._open.places
        return places[-1][1] if places else None

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
    _, stack, function = place
    code = getattr(function, "__code__", None) or stack.raw[0]
    return is_user_file(code.co_filename)


def frames_of_place(place: Place, cwd: str) -> list[Frame]:
    """Frames of a switch; for a decorated function the innermost frame is the decorator's line."""
    _, raw, function = place
    frames = frames_of(raw, cwd)
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType) and is_user_file(code.co_filename):
        # co_firstlineno is the line of the first decorator (CPython 3.8 and later).
        line = code.co_firstlineno
        frames = [f for f in frames if f.user]
        frames.append(Frame(shown_file(code.co_filename, cwd), line, 0, line, 0, code.co_name))
    return frames
