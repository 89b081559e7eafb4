"""The program's own function and dispatch modes see every call on a tensor: ours too, unless they are left first."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

_NOTHING = nullcontext()


class Modes:
    """Leaves the modes that are on while we look around; where none is on that costs two calls of C."""

    def __init__(self, torch: Any) -> None:
        from torch.utils import _python_dispatch

        self._torch = torch
        self._functions = getattr(torch._C, "_len_torch_function_stack", lambda: 0)
        self._operators = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        self._apart = getattr(_python_dispatch, "_disable_current_modes", ExitStack)

    def left(self) -> AbstractContextManager[Any]:
        """A block in which they are left; the same one, which does nothing, wherever none is on."""
        functions, operators = self._functions(), self._operators()
        if not functions and not operators:
            return _NOTHING
        left = ExitStack()
        if functions:
            left.enter_context(self._torch._C.DisableTorchFunction())
        if operators:
            left.enter_context(self._apart())
        return left
