"""The hint at the end of PyTorch's version error: put back to what it says where the user has no anomaly mode."""

from __future__ import annotations

import _thread
from typing import Any

from graphdoc.capture.anomaly import UsersView
from graphdoc.capture.ours import chain_of

_END = "Good luck!"
"""How the hint ends while anomaly mode is on (saved_variable.cpp, unpack)."""


_LONGEST = 10.0
"""Seconds that the error may take to be made; it takes a thousandth of one."""


class Hints:
    """Both endings of the message, asked of PyTorch itself at the first need: the words differ between versions."""

    def __init__(self, torch: Any, view: UsersView) -> None:
        self._torch = torch
        self._view = view
        self._pair: tuple[str, str] | None = None

    def put_back(self, error: BaseException) -> None:
        """Give the exception, and those behind it, the text that they have without us."""
        for e in chain_of(error):
            args = e.args
            if isinstance(e, RuntimeError) and len(args) == 1 and type(args[0]) is str and args[0].endswith(_END):
                ours, theirs = self._pair or self._ask()
                if ours and theirs and args[0].endswith(ours):
                    e.args = (args[0].removesuffix(ours) + theirs,)

    def _ask(self) -> tuple[str, str]:
        """Make the error twice, in a thread of its own.

        There the program's grad mode, inference mode, function and dispatch modes and default device are not in force,
        and the numbers of its nodes are not used up: all of these belong to a thread.
        """
        told = ["", ""]
        ended = _thread.allocate_lock()
        ended.acquire()

        def ask() -> None:
            try:
                try:
                    for place, on in enumerate((True, False)):
                        self._view.force(on)
                        told[place] = self._hint()
                finally:
                    self._view.resume()
            finally:
                ended.release()

        try:
            _thread.start_new_thread(ask, ())
        except RuntimeError:
            return "", ""  # Python is about to end
        if not ended.acquire(timeout=_LONGEST):
            return "", ""
        self._pair = told[0], told[1]
        return self._pair

    def _hint(self) -> str:
        x = self._torch.zeros(1, requires_grad=True).exp()
        x.detach().add_(1)
        try:
            x.grad_fn._saved_result  # noqa: B018
        except RuntimeError as e:
            return str(e).partition(" instead. ")[2]
        return ""
