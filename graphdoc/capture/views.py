"""Views one by one, for a reference run: what ``unbind``, ``chunk`` and ``split`` give, each from a call of its own.

Autograd refuses writes into the outputs of a call that returns several views, and tracks the same writes into views
that were made singly. So this lets a program that was refused go on with the numbers and gradients that its author
meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class SingleViews(TorchFunctionMode):
    """Takes the place of the calls that return several views."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Any, Callable[..., Any]] = {
            torch.unbind: _unbind,
            torch.Tensor.unbind: _unbind,
            torch.chunk: _cut(torch.chunk),
            torch.Tensor.chunk: _cut(torch.chunk),
            torch.split: _cut(torch.split),
            torch.Tensor.split: _cut(torch.split),
            torch.tensor_split: _cut(torch.tensor_split),
            torch.Tensor.tensor_split: _cut(torch.tensor_split),
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = self._known.get(func)
        if own is not None and args and isinstance(args[0], torch.Tensor):
            return own(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _unbind(tensor: Any, dim: int = 0) -> tuple[Any, ...]:
    return tuple(tensor.select(dim, i) for i in range(tensor.size(dim)))


def _cut(function: Callable[..., Any]) -> Callable[..., Any]:
    def cut(tensor: Any, sizes: Any, dim: int = 0) -> tuple[Any, ...]:
        with torch.no_grad():
            lengths = [part.size(dim) for part in function(tensor.detach(), sizes, dim)]
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        return tuple(tensor.narrow(dim, s, n) for s, n in zip(starts, lengths, strict=True))

    return cut
