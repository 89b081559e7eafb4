"""The latest calls of a GradScaler's ``unscale_``, ``step`` and ``update``: where, and between which backward calls."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.frames import frames_of
from graphdoc.capture.inserted_calls import CannotInsert, insert_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphdoc.capture.witness import Witness
    from graphdoc.evidence import Evidence

MOST_CALLS = 24
_WATCHED = ("unscale_", "step", "update")


class ScalerCalls:
    """Remembers (kind, stack, events of the journal before it, identity of the optimizer, of the scaler)."""

    def __init__(self) -> None:
        self.calls: deque[tuple[str, stacks.Stack, int, int, int]] = deque(maxlen=MOST_CALLS)

    @property
    def used(self) -> bool:
        """Whether there was any call."""
        return bool(self.calls)

    def watch(self, witness: Witness) -> list[Callable[[], None]]:
        """Insert calls into the scaler's methods; the functions that undo it. Where that cannot be, nothing is told."""
        scaler = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
        undo: list[Callable[[], None]] = []
        for kind in _WATCHED:
            try:
                undo.append(insert_calls(getattr(scaler, kind), before=self._noting(kind, witness)))
            except (CannotInsert, AttributeError, TypeError):
                break
        return undo

    def _noting(self, kind: str, witness: Witness) -> Callable[..., None]:
        def before(*values: Any) -> None:
            if not getattr(values[0], "_enabled", True):
                return  # it does nothing at all
            # values: the scaler, then the optimizer (``update`` has a new scale there), args, kwargs
            try:
                optimizer = id(values[1]) if kind != "update" else 0
                self.calls.append((kind, stacks.stack_here(3), witness.journal.count, optimizer, id(values[0])))
            except Exception as e:
                witness.trouble(e)

        return before

    def fill(self, evidence: Evidence, cwd: str) -> None:
        """Tell the calls of the scaler that was called last, oldest first, in ``extras["scaler"]``."""
        if not self.calls:
            return
        last = self.calls[-1]
        same = [c for c in self.calls if c[4] == last[4] and c[3] in (0, last[3])]
        evidence.extras["scaler"] = [
            {"kind": kind, "stack": [vars(f) for f in frames_of(raw, cwd)], "index": index}
            for kind, raw, index, _, _ in same
        ]
