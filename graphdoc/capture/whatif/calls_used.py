"""What is used: by a step of the backward calls before it, by a backward of what its forward has saved."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from graphdoc.capture.audit.moved import print_of
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.walk import nodes_behind
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.second_run.births import home_of, tensors_in, writes_over, written_by
from graphdoc.capture.second_run.writes import Assignments
from graphdoc.capture.whatif.window import ForkWatch, Move, Target, answer_of

_COPIES = frozenset(
    ("clone", "detach", "to", "float", "half", "bfloat16", "cpu", "copy_", "view", "reshape", "div", "div_", "mul_")
)
"""Functions that hand a gradient on as it is, or weighed."""


class Turned(TorchFunctionMode, ForkWatch):
    """A watch of one fork in which one backward call gives the opposite of its gradients. It tells what the step is
    about to use, of how many calls of one line, where their gradients were taken away, and whether anybody has computed
    something from those of an earlier one: a norm, an angle between two."""

    def __init__(self, target: Target, turned: int) -> None:
        super().__init__()
        self._target, self._turned = target, turned
        self._places: list[Any] = []
        self._hooks: list[Any] = []
        self._call: Any = None
        self._taken: Any = None
        self._gave = False
        """The call that is turned around gives a number that is not zero."""
        self._given: dict[int, tuple[Any, int]] = {}
        """Gradients that were taken, and copies of them, by id, with the number of the call."""
        self._read: set[int] = set()
        """Numbers of the calls from whose gradients something was computed."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        grad = self._target.torch.Tensor.grad
        if self._places and func == grad.__set__ and args[1] is None:
            self._taken = stacks.stack_here(2)
        result = func(*args, **(kwargs or {}))
        calls = {self._given[id(t)][1] for t in tensors_in((args, kwargs or {})) if id(t) in self._given}
        if func == grad.__get__ and self._places:
            calls = {len(self._places)}
        elif func.__name__ not in ("__get__", "__set__", *_COPIES):
            self._read |= calls
        if calls and func.__name__ != "__set__":
            self._given.update((id(t), (t, max(calls))) for t in tensors_in(result))
        return result

    def began(self, outputs: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._call = stacks.stack_here(3)
        self._places.append(site_of(self._call))
        if len(self._places) == self._turned + 1:
            leaves = (getattr(node, "variable", None) for node, _ in nodes_behind(tensor_roots(outputs)))
            self._hooks = [leaf.register_hook(self._opposite) for leaf in leaves if leaf is not None]

    def _opposite(self, gradient: Any) -> Any:
        self._gave |= bool(gradient.any())
        return -gradient

    def told(self) -> dict[str, Any]:
        grads = (p.grad for p in self._target.parameters)
        return {
            "calls": len(self._places) if len({*self._places}) == 1 else 0,
            "gave": self._gave,
            "read": any(n < len(self._places) for n in self._read),
            "used": [print_of(g) if g is not None else 0 for g in grads],
            "call": self.frames(self._call),
            "taken": self.frames(self._taken),
        }


def unused(target: Target) -> Generator[Move, Any, dict[str, Any] | None]:
    """What such a fork has told, where the last of several calls decides what the step uses, and no other one; empty
    where another does."""
    as_it_is = yield from _told(target, -1)
    last = as_it_is["calls"] - 1 if as_it_is else 0
    if not as_it_is or last < 1 or as_it_is["read"] or not as_it_is["taken"] or not any(as_it_is["used"]):
        return None
    for turned in sorted({0, last - 1, last}):
        other = yield from _told(target, turned)
        if not other or other["calls"] != last + 1 or not other["gave"]:
            return None
        if (other["used"] == as_it_is["used"]) is (turned == last):
            return {}
    return as_it_is


def _told(target: Target, turned: int) -> Generator[Move, Any, dict[str, Any]]:
    told: dict[str, Any] = answer_of((yield Move(watch=Turned(target, turned))), {})
    return told


# What a forward has saved for its backward, beside what stands in that memory when backward reads it.

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
