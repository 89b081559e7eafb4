"""What a step is where the numbers that leave a graph at some places keep it: the same, but for its gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.second_run.cut_recorder import FILLED, REMADE, name_of
from graphdoc.capture.whatif.window import ForkWatch


class Uncut(TorchFunctionMode, ForkWatch):
    """A watch of one step in which conversions at these places give what has a graph; where a number in Python has to
    be given, what makes a tensor of it is given the tensor."""

    def __init__(self, places: Collection[Any]) -> None:
        super().__init__()
        self._places = places
        self._names = {op for op, _ in places}
        self._numbers: dict[int, tuple[float, Any]] = {}
        self._within = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, name = func(*args, **(kwargs or {})), name_of(func)
        if self._within:
            return result
        self._within = True
        try:
            return self._kept(name, args, kwargs or {}, result)
        finally:
            self._within = False

    def _kept(self, name: str, args: Any, kwargs: dict[str, Any], result: Any) -> Any:
        here = name in self._names and (name, site_of(stacks.stack_here(3))) in self._places
        if here and name not in REMADE:
            if type(result) is float:
                self._numbers[id(result)] = result, args[0].reshape(())
        elif name in REMADE and (here or self._numbers):
            parts = list(self._parts([*args[name in FILLED :][: 1 + (name == "full")], kwargs.get("fill_value")]))
            if any(isinstance(p, torch.Tensor) and p.requires_grad for p in parts):
                flat = [p.reshape(-1) if isinstance(p, torch.Tensor) else torch.tensor([p]) for p in parts]
                whole = torch.cat([p.to(result.dtype) for p in flat])
                return whole[-1].expand(result.shape).clone() if "full" in name else whole.reshape(result.shape)
        return result

    def _parts(self, values: Any) -> Iterator[Any]:
        for value in values:
            if isinstance(value, list | tuple):
                yield from self._parts(value)
            elif value is not None:
                number, tensor = self._numbers.get(id(value), (None, None))
                yield tensor if number is value and tensor is not None else value

    def told(self) -> Any:
        """Nothing more: the gradients tell."""
        return True
