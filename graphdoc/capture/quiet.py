"""Looking without a trace: what is switched off while we look around, and put back as it was afterwards."""

from __future__ import annotations

import gc
import sys
import warnings
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

from graphdoc.capture.anomaly import UsersView
from graphdoc.capture.code_places import is_user_file

_EVERYTHING = ("ignore", None, Warning, None, 0)


class Quiet:
    """While we look around, no stack is recorded and nothing that we read may warn."""

    def __init__(self, view: UsersView) -> None:
        self._view = view

    def __enter__(self) -> None:
        # First what needs the most calls: where the recursion limit stops it, nothing has been switched off.
        self._view.pause()
        # What the examination makes is freed with it; searching it for cycles only costs time.
        self._collecting = gc.isenabled()
        gc.disable()
        warnings.filters.insert(0, _EVERYTHING)  # type: ignore[attr-defined]

    def __exit__(self, *exc: object) -> None:
        self._view.resume()
        if self._collecting:
            gc.enable()
        try:
            warnings.filters.remove(_EVERYTHING)  # type: ignore[attr-defined]
        except ValueError:
            pass


class Unseen(Quiet):
    """Moreover no code of the user's runs: reading a tensor's shape calls its class's ``__torch_function__``, and the
    modes that the program is in. The functions from ``frame`` outwards keep no copy of their names.
    """

    def __init__(self, torch: Any, view: UsersView, frame: FrameType | None) -> None:
        super().__init__(view)
        self._unasked = torch._C.DisableTorchFunction()
        self._frame = frame

    def __enter__(self) -> None:
        super().__enter__()
        self._unasked.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._unasked.__exit__(*exc)
        super().__exit__(*exc)
        forget_locals(self._frame)


def forget_locals(frame: FrameType | None) -> None:
    """Empty the copies that reading ``f_locals`` has left in these frames: they would keep the user's tensors alive.

    Not one that the program itself holds, because it has called ``locals()``. From Python 3.13 there is no copy
    (PEP 667); a module's or class body's ``f_locals`` are its real names at all times.
    """
    while frame is not None and sys.version_info < (3, 13):
        if frame.f_code.co_flags & CO_OPTIMIZED and is_user_file(frame.f_code.co_filename):
            values = frame.f_locals
            if sys.getrefcount(values) <= _OWN_REFERENCES:
                values.clear()
        frame = frame.f_back


_OWN_REFERENCES = 3
"""The frame's, the variable's and the argument's."""
