"""Who gives an optimizer's parameters their old numbers again between two steps, and whether anybody read the new."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from torch.overrides import TorchFunctionMode

from graphdoc.capture import stacks
from graphdoc.capture.audit.moved import print_of
from graphdoc.capture.births import tensors_in
from graphdoc.capture.facts import storage_of
from graphdoc.capture.frames import frames_of

if TYPE_CHECKING:
    from graphdoc.capture.whatif.window import Target

_SHAPES = {"size", "dim", "numel", "nelement", "stride", "is_floating_point", "is_complex", "requires_grad_", "__len__"}
"""Functions that read no number."""
_OVERWRITES = {"copy_", "_foreach_copy_", "set_", "__set__", "__setitem__"}
"""What is written in place by another function is made of what was there."""


class TakenBack(TorchFunctionMode):
    """A watch of one step: whether the parameters come back to what they were before the step (``before``, as
    ``print_of`` reads them), by which write, and whether their numbers were read by then. A forward with the new
    weights, a copy of them, a projection of them read them: the step was for that."""

    def __init__(self, target: Target, before: list[int], cwd: str) -> None:
        super().__init__()
        self._tensor = target.torch.Tensor
        pairs = zip(target.parameters, before, strict=True)
        self._moved = [(p, b) for p, b in pairs if b and print_of(p) not in (0, b)]
        self._cwd = cwd
        self._back = self._within = False
        self._read = _is_scripted(target.torch) or any(_has_views(target.torch, p) for p, _ in self._moved)
        self._written: stacks.Stack | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [] if self._within or self._back else list(tensors_in((args, kwargs or {})))
        self._within, within = True, self._within
        memory = {storage_of(p) for p, _ in self._moved} if given else set()
        mine = [storage_of(t) in memory for t in given]
        self._within = within
        result = func(*args, **(kwargs or {}))
        if not any(mine):
            return result
        name = getattr(func, "__name__", "")
        into = len(list(tensors_in(args[:1])))
        if name in _OVERWRITES and all(mine[:into]) and not any(mine[into:]):
            self._written = stacks.stack_here(2)
            self._within = True
            self._back = all(print_of(p) == b for p, b in self._moved)
            self._within = False
        elif name not in _SHAPES and name != "__get__" and not self._is_view(result, memory):
            self._read = True
        return result

    def _is_view(self, result: Any, memory: set[int | None]) -> bool:
        return isinstance(result, self._tensor) and storage_of(result) in memory

    def began(self, _outputs: Any) -> None:
        """A backward call begins."""

    def told(self) -> Any:
        """Where they were written last, if that has given them their old numbers and nobody had read the new ones."""
        if self._read or not self._back or self._written is None:
            return []
        return [dict(vars(f)) for f in frames_of(self._written, self._cwd)]


# What reads parameters without an operation that a mode sees: TorchScript's interpreter, and NumPy in their memory.


def _is_scripted(torch: Any) -> bool:
    return any(torch.jit.ScriptModule in type(o).__mro__ for o in gc.get_objects())


def _has_views(torch: Any, parameter: Any) -> bool:
    """Whether anything but the parameter and the object that is asked here uses the memory."""
    return int(torch._C._storage_Use_Count(parameter.untyped_storage()._cdata)) > 2
