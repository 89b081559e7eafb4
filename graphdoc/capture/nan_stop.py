"""``--nan stop``: ends the program where nan first reaches a loss, a gradient that is used, or a parameter.

What a mask makes harmless never gets there, and infinities are left to the program: ``best = inf``, a mask's ``-inf``,
and a GradScaler on its way to the right scale. With such a scaler only the parameters count.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from graphdoc.capture.code_places import OURS
from graphdoc.capture.hooks import hook_in
from graphdoc.capture.journal import leaves_behind
from graphdoc.capture.number_facts import numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphdoc.capture.witness import Witness

WORDS = "(graphdoc run --nan stop)"


class Stopping:
    """Looks at every loss and every gradient; as slow as that is."""

    def __init__(self, witness: Witness) -> None:
        self._torch = witness.torch
        self._witness = witness
        self.stopped = False
        self._leaves: dict[int, Any] = {}

    def watch(self) -> list[Callable[[], None]]:
        """Look at the parameters after each step; returns what undoes it."""
        from torch.optim import optimizer

        return [optimizer.register_optimizer_step_post_hook(self._stepped).remove, _keep_out_of_traceback()]

    def before(self, outputs: Any, roots: list[Any]) -> None:
        """A backward call begins.

        Raises:
            FloatingPointError: what it starts from is nan.
        """
        self._leaves = dict(leaves_behind(roots) or {})
        if not self._witness.scaled() and any(self._is_nan(t) for t in outputs):
            self._stop("the loss of this backward call is nan")

    def after(self) -> None:
        """It has ended.

        Raises:
            FloatingPointError: a gradient that it has left is nan.
        """
        leaves, self._leaves = self._leaves, {}
        if not self._witness.scaled() and sys.exc_info()[0] is None:
            bad = sum(1 for leaf in leaves.values() if leaf.grad is not None and self._is_nan(leaf.grad))
            if bad:
                self._stop(f"nan in the gradients of {bad} of {len(leaves)} parameters")

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if any(self._is_nan(p) for group in optimizer.param_groups for p in group["params"]):
            self._stop(f"nan in the parameters after {type(optimizer).__name__}.step()")

    def _stop(self, why: str) -> NoReturn:
        self.stopped = True
        raise FloatingPointError(f"{why} {WORDS}")

    def _is_nan(self, tensor: Any) -> bool:
        try:
            with self._torch.no_grad():
                return numbers_of(tensor) is not None and bool(self._torch.isnan(tensor.detach()).any())
        except Exception:
            return False


def _keep_out_of_traceback() -> Callable[[], None]:
    """Let Python print the exceptions that are raised here without the functions of ours that raise them."""
    told = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, FloatingPointError) and str(error).endswith(WORDS):
            trace = _without_ours(trace)
            error.__traceback__ = trace
        told(kind, error, trace)

    return hook_in(sys, "excepthook", hook)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    entries = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(OURS):
            entries.append(trace)
        trace = trace.tb_next
    for entry in reversed(entries):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace
