"""Looking without a trace: what is switched off while we look around, anomaly mode too, and put back as it was."""

from __future__ import annotations

import gc
import sys
import warnings
from collections import deque
from collections.abc import Iterable
from inspect import CO_OPTIMIZED
from itertools import islice
from types import FrameType
from typing import Any

from graphdoc.capture.graph.walk import DEEP, NO_SEQUENCE, nodes_behind
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file, outwards
from graphdoc.capture.process.hooks import look_alike

_EVERYTHING = ("ignore", None, Warning, None, 0)


class Quiet:
    """While we look around, no stack is recorded and nothing that we read may warn."""

    def __init__(self, view: UsersView) -> None:
        self._view = view

    def __enter__(self) -> None:
        # First what needs the most calls: where the recursion limit stops it, nothing has been switched off.
        self._paused = self._view.paused
        self._view.pause()
        # What the examination makes is freed with it; searching it for cycles only costs time.
        self._collecting = gc.isenabled()
        gc.disable()
        warnings.filters.insert(0, _EVERYTHING)  # type: ignore[attr-defined]

    def __exit__(self, *exc: object) -> None:
        if not self._paused:
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
        self.frame = frame

    def __enter__(self) -> None:
        super().__enter__()
        self._unasked.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._unasked.__exit__(*exc)
        super().__exit__(*exc)
        forget_locals(self.frame)
        self.frame = None


def forget_locals(frame: FrameType | None) -> None:
    """Empty the copies that reading ``f_locals`` has left in these frames: they would keep the user's tensors alive.

    Not one that the program itself holds, because it has called ``locals()``. From Python 3.13 there is no copy
    (PEP 667); a module's or class body's ``f_locals`` are its real names at all times.
    """
    for outer in outwards(frame) if sys.version_info < (3, 13) else ():
        if outer.f_code.co_flags & CO_OPTIMIZED and is_user_file(outer.f_code.co_filename):
            values = outer.f_locals
            if sys.getrefcount(values) <= _OWN_REFERENCES:
                values.clear()


_OWN_REFERENCES = 3
"""The frame's, the variable's and the argument's."""


# Anomaly mode as the user set it, beside anomaly mode as we need it: on, with our stacks and without the NaN check.

MOST_SPANS = 50
"""A loop that switches anomaly mode on for each backward is remembered this far back."""


class UsersView:
    """Keeps what the user asked for and what is really set apart; switches anomaly mode on without the user seeing it.

    ``wanted`` is the user's own setting; ``torch.is_anomaly_enabled()`` and ``torch.autograd.detect_anomaly`` read it.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._set = torch.set_anomaly_enabled
        self._is = torch.is_anomaly_enabled
        self._is_check = torch.is_anomaly_check_nan_enabled
        self.wanted: bool = self._is()
        self.check_nan: bool = self._is_check()
        self._sequence_nr = torch.autograd._get_sequence_nr
        self._spans: deque[list[int]] = deque([[0, NO_SEQUENCE]] if self.wanted else [], MOST_SPANS)
        """First sequence number, and the one after the last, of the nodes made while the user had anomaly mode on."""
        self.paused = False
        self.off = False
        self.thin = False
        """Steps are like the last ones, and are not recorded (see ``graphdoc.capture.events.learned``)."""
        self.show()
        self._apply()

    def show(self) -> None:
        """Let the program see its own setting."""

        def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
            self._users_set(enabled, check_nan)

        ours: tuple[Any, ...] = set_anomaly_enabled, lambda: self.wanted, lambda: self.check_nan
        self._put(*map(look_alike, ours, (self._set, self._is, self._is_check)))

    def _put(self, *functions: Any) -> None:
        for place in (self._torch, self._torch._C):
            place.set_anomaly_enabled, place.is_anomaly_enabled, place.is_anomaly_check_nan_enabled = functions

    def _users_set(self, enabled: bool, check_nan: bool) -> None:
        before = self.wanted
        self.wanted, self.check_nan = bool(enabled), bool(check_nan)
        self._apply()
        if self.wanted and not before:
            self._spans.append([self._sequence_nr(), NO_SEQUENCE])
        elif before and not self.wanted and self._spans:
            self._spans[-1][1] = self._sequence_nr()

    def _apply(self) -> None:
        # The user's own anomaly mode fails at the recursion limit as it does without us.
        stacks.give_way[0] = bool if self.wanted else self._set
        if self.off:
            self._set(self.wanted, self.check_nan)
        else:
            on = self.wanted or not self.thin
            self._set(on and not self.paused, self.wanted and self.check_nan)

    def hide_ours(self, roots: Iterable[Any]) -> None:
        """Before a backward call under the user's anomaly mode: nodes made while it was off have no stack to print.

        PyTorch would print ours, and says "No forward pass information available" where there is none
        (PyAnomalyMetadata::print_stack). In a very large graph some nodes keep theirs.
        """
        if self._spans and self._spans[-1][0] == 0:
            return  # on since before the first node
        for node, _ in islice(nodes_behind(roots), DEEP):
            number = node._sequence_nr()
            if number < NO_SEQUENCE and not any(first <= number < end for first, end in self._spans):
                stacks.hide_in(node)

    def pause(self) -> None:
        """No stacks for a moment (while graphdoc itself looks around)."""
        self.paused = True
        self._apply()

    def force(self, on: bool) -> None:
        """Anomaly mode on or off whatever is recorded, until ``resume``."""
        self._set(on, False)

    def resume(self) -> None:
        self.paused = False
        self._apply()

    def again(self) -> None:
        """Go on recording if that was given up at Python's recursion limit."""
        if not (self._is() or self.paused or self.off or self.thin):
            self._apply()

    def thin_out(self, thin: bool) -> None:
        """Record nothing of what follows, or record it again; the user's own anomaly mode stays."""
        self.thin = thin
        self._apply()

    def switch_off(self) -> None:
        """Leave anomaly mode to the user for the rest of the run (torch.compile refuses it)."""
        self.off = True
        self._apply()

    def undo(self) -> None:
        stacks.give_way[0] = bool
        self._put(self._set, self._is, self._is_check)
        self._set(self.wanted, self.check_nan)
