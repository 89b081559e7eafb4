"""Looking without a trace: what is switched off while we look around, and put back as it was afterwards."""

from __future__ import annotations

import gc
import sys
import warnings
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

from graphdoc.capture.anomaly import UsersView
from graphdoc.capture.places import is_user_file

_EVERYTHING = ("ignore", None, Warning, None, 0)


class Quiet:
    """While we look around, no stack is recorded and nothing that we read may warn."""

    def __init__(self, view: UsersView) -> None:
        self._view = view

    def __enter__(self) -> None:
        # What the examination makes is freed with it; searching it for cycles only costs time.
        self._collecting = gc.isenabled()
        gc.disable()
        warnings.filters.insert(0, _EVERYTHING)  # type: ignore[attr-defined]
        self._view.pause()

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
    modes that the program is in. The frames from ``frame`` outwards keep no copy of their names.
    """

    def __init__(self, torch: Any, view: UsersView, frame: FrameType | None) -> None:
        super().__init__(view)
        self._unasked = torch._C.DisableTorchFunction()
        self._frames = _with_copies(frame)

    def __enter__(self) -> None:
        super().__enter__()
        self._unasked.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._unasked.__exit__(*exc)
        super().__exit__(*exc)
        for frame, own in self._frames:
            values = frame.f_locals
            before = next((kept for d, kept in own if d is values), None)
            values.clear()
            if before is not None:
                values.update(before)


def _with_copies(frame: FrameType | None) -> list[tuple[FrameType, list[tuple[dict[Any, Any], dict[Any, Any]]]]]:
    """The user's functions from here outwards whose ``f_locals`` is a copy, each with the dicts that may be it already.

    Reading ``f_locals`` fills that copy, which would keep the user's tensors alive; and if the program has called
    ``locals()`` there, it is the very dict that it was given. From Python 3.13 there is no copy (PEP 667); a module's
    or class body's ``f_locals`` are its real names at all times.
    """
    out = []
    while frame is not None and sys.version_info < (3, 13):
        code = frame.f_code
        if code.co_flags & CO_OPTIMIZED and is_user_file(code.co_filename):
            most = code.co_nlocals + len(code.co_cellvars) + len(code.co_freevars)
            dicts = [d for d in gc.get_referents(frame) if type(d) is dict and len(d) <= most]
            out.append((frame, [(d, dict(d)) for d in dicts]))
        frame = frame.f_back
    return out
