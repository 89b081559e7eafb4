"""Which elements a ``where`` or a fill left out, told by its own backward: it sends zero to those."""

from __future__ import annotations

from typing import Any

import torch

from graphdoc.capture.node_stacks import kept_in

CHOOSING = ("WhereBackward0", "NansumBackward0", "NanToNumBackward0", "MaskedFillBackward0")
MOST_CHOICES = 64
MOST_ELEMENTS = 1_000_000


class LeftOut:
    """The latest choices of the backward calls, by the stack of their forward."""

    def __init__(self) -> None:
        self._masks: dict[int, tuple[Any, dict[int, Any]]] = {}
        """By the stack of the forward, which is held: for each input of it, the elements that were left out."""

    def look(self, name: str, args: Any) -> None:
        """An operation has run: if it is the backward of a choice, keep which elements got zero."""
        if not name.startswith(("aten.where", "aten.masked_fill")):
            return
        node = torch._C._current_autograd_node()
        made = kept_in(node) if node is not None and str(node.name()) in CHOOSING else None
        side, mask = _zeroed(name, args) if made is not None else (0, None)
        if mask is None or mask.numel() > MOST_ELEMENTS:
            return
        _, known = self._masks.pop(id(made), (made, {}))
        self._masks[id(made)] = (made, known | {side: mask.clone()})
        if len(self._masks) > MOST_CHOICES:
            del self._masks[next(iter(self._masks))]

    def sparing(self, bad: Any) -> set[tuple[int, int]]:
        """The choices, by stack and input, that left out none of these elements; of another shape, none at all."""
        return {
            (ident, side)
            for ident, (_, masks) in self._masks.items()
            for side, mask in masks.items()
            if not bool((mask & bad).any() if mask.shape == bad.shape else mask.any())
        }


def _zeroed(name: str, args: Any) -> tuple[int, Any]:
    """Which input of a choice its backward computes the gradient of, and where that has zero in its place; None for
    what cannot be read.
    """
    if name.startswith("aten.masked_fill"):
        return 0, args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else None
    if len(args) < 3 or not all(isinstance(a, torch.Tensor) for a in args[:3]):
        return 0, None
    condition, one, other = args[:3]
    if condition.dtype is not torch.bool or (one.dim() == 0) == (other.dim() == 0):
        return 0, None
    return (1, condition) if one.dim() == 0 else (0, ~condition)
