"""Where arrays and lists that are not finite become tensors, in the second run that looks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from graphdoc.capture import stacks
from graphdoc.capture.number_facts import is_finite, looked_at
from graphdoc.capture.operator_writes import home_of

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_LOADING = ("from_numpy", "tensor", "as_tensor", "frombuffer")


class Loading:
    """``places`` are the stacks by memory, ``most`` of them; ``trouble`` is told of an exception of our own."""

    def __init__(self, trouble: Callable[[BaseException], None], most: int) -> None:
        self.places: dict[int, tuple[Any, StorageWeakRef]] = {}
        self._trouble, self._most = trouble, most

    def watch(self) -> list[Callable[[], None]]:
        """Begin; returns what undoes it."""
        undo: list[Callable[[], None]] = []
        for name in _LOADING:
            function = getattr(torch, name)
            setattr(torch, name, self._noting(function))
            undo.append(partial(setattr, torch, name, function))
        return undo

    def _noting(self, function: Any) -> Any:
        @wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            out = function(*args, **kwargs)
            try:
                few = len(self.places) < self._most and type(out) in PLAIN
                if few and looked_at(out) and not is_finite(torch, out):
                    alive = StorageWeakRef(out.untyped_storage())  # type: ignore[no-untyped-call]
                    self.places[home_of(out)] = stacks.stack_here(2), alive
            except Exception as e:
                self._trouble(e)
            return out

        return made
