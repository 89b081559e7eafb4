"""What a forward has saved for its backward, beside what stands in that memory when backward reads it."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from graphdoc.capture.places import stacks
from graphdoc.capture.second_run.births import home_of, tensors_in, writes_over, written_by
from graphdoc.capture.second_run.writes import Assignments
from graphdoc.capture.whatif.window import ForkWatch

MOST = 2
"""Places that are told."""


class AsSaved(TorchDispatchMode, ForkWatch):
    """A watch of one fork in which backward reads what the forward has saved, whatever was written there since. It
    tells where that was: ``made`` is the operation that has saved it, ``written`` the latest write to that memory."""

    def __init__(self, torch: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._torch = torch
        self._writes: dict[Any, stacks.Stack] = {}
        """By memory, and by leaf that was given another."""
        self._found: dict[int, tuple[stacks.Stack, stacks.Stack]] = {}

    def __enter__(self) -> AsSaved:
        super().__enter__()  # type: ignore[no-untyped-call]
        self._torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack).__enter__()
        Assignments(lambda _: True, self._assigned).__enter__()  # type: ignore[no-untyped-call]
        return self

    def _assigned(self, tensor: Any) -> None:
        self._writes[tensor] = stacks.stack_here(3)  # _assigned < __torch_function__ < who assigns

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if hasattr(func, "_schema") and writes_over(func):
            here = stacks.stack_here(2)
            self._writes.update((home_of(t), here) for t in tensors_in(written_by(func, args, kwargs or {})))
        return result

    def _pack(self, tensor: Any) -> Any:
        live = tensor if tensor.is_leaf else tensor.detach()  # a leaf may be given other memory
        return live, home_of(live), tensor.detach().clone(), stacks.stack_here(2)

    def _unpack(self, kept: Any) -> Any:
        live, home, copy, made = kept
        written = self._writes.get(home if home_of(live) == home else live)
        if written is not None and home not in self._found and not self._torch.equal(live, copy):
            self._found[home] = made, written
        return copy

    def told(self) -> list[dict[str, Any]]:
        found = list(self._found.values())[:MOST]
        return [{"made": self.frames(made), "written": self.frames(written)} for made, written in found]
