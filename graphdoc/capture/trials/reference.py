"""A run to compare with: the program as it is written, made to go on where it failed; its random numbers and views.

Saved tensors are copied before they are written into, so that backward finds them whole.
``torch.autograd.graph.allow_mutation_on_saved_tensors`` does that, but it does not see every write, and knows a tensor
by marks that another may take over (seen with torch 2.13): see ``_Keys``.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from graphdoc.capture.places.code_places import outwards


class Copying:
    """One context for all threads, ``graph`` being ``torch.autograd.graph``."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._keys = _Keys(graph)

    def enter(self) -> AbstractContextManager[Any]:
        """What a thread is to enter: the context, or where it is entered already, what of it is each thread's own."""
        return self._first() if self._keys.context is None else self._another()

    @contextmanager
    def _first(self) -> Iterator[None]:
        with self._graph.allow_mutation_on_saved_tensors() as self._keys.context:
            yield

    @contextmanager
    def _another(self) -> Iterator[None]:
        context = self._keys.context
        with self._graph._swap_with_cloned(context), self._graph._CloneArgBeforeMutateMode(context):
            yield


def run_straight(checkpoint: Any) -> None:
    """Let ``checkpoint``, torch's module of that name, run what it is given at once, and never again.

    That is the call which a checkpoint stands for: the same values, the same random numbers (the checkpoint draws none
    besides, and restores them for its second run), and the gradients whatever its inputs require.
    """
    generator: Any = getattr(checkpoint, "_checkpoint_without_reentrant_generator", None)  # torch 2.1 and later

    def apply(function: Any, _preserve: bool, *args: Any) -> Any:
        return function(*args)

    def nothing_around(function: Any, preserve: bool, context_fn: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if context_fn is not checkpoint.noop_context_fn:
            yield from generator(function, preserve, context_fn, *args, **kwargs)
        else:
            yield

    checkpoint.CheckpointFunction.apply = staticmethod(apply)
    if generator is not None:
        checkpoint._checkpoint_without_reentrant_generator = nothing_around


def note_checkpoints(checkpoint: Any, noted: Callable[[bool], None]) -> None:
    """Tell ``noted`` whenever ``checkpoint``, torch's module of that name, runs anything, and whether it would run it
    again for backward. For second runs alone."""
    generator: Any = getattr(checkpoint, "_checkpoint_without_reentrant_generator", None)
    once = checkpoint.CheckpointFunction.apply

    def apply(function: Any, preserve: bool, *args: Any) -> Any:
        noted(any(isinstance(a, torch.Tensor) and a.requires_grad for a in args))
        return once(function, preserve, *args)

    def around(*args: Any, **kwargs: Any) -> Any:
        noted(True)
        return generator(*args, **kwargs)

    checkpoint.CheckpointFunction.apply = staticmethod(apply)
    if generator is not None:
        checkpoint._checkpoint_without_reentrant_generator = around


def is_recorded(torch: Any) -> bool:
    """Whether the outermost ``Function`` under way, a reentrant checkpoint say, has been given something that requires
    gradients: it is a node of the graph then."""
    code = torch.autograd.function.Function.apply.__func__.__code__
    frames = [f for f in outwards(sys._getframe(1)) if f.f_code is code]
    given = frames[-1].f_locals.get("args", ()) if frames else ()
    return any(isinstance(a, torch.Tensor) and a.requires_grad for a in given)


class _Keys:
    """By what the context knows tensors and their memory again.

    - It takes a tensor's first address for its memory: ``y[1:].add_(1)`` begins elsewhere than ``y``, which goes
      uncopied and gives a wrong gradient without an error. Here memory is the whole storage.
    - A tensor that was copied is let go, and a later one may have its ``id``, address and version: it would get the
      copy of the earlier. A mark that stands for a copy is not given to a tensor that is saved anew.
    - It asks sparse tensors for an address, which they do not have (``Cannot access data pointer of Tensor that
      doesn't have storage``); nobody writes into those.
    """

    def __init__(self, graph: Any) -> None:
        self.context: Any = None
        self._strided = graph.torch.strided
        self._known_tid: Any = getattr(graph, "_get_tid", None)
        self._known_sid: Any = getattr(graph, "_get_sid", None)
        if self._known_tid is not None and self._known_sid is not None:
            graph._get_tid, graph._get_sid = self._tensor, self._memory

    def _tensor(self, tensor: Any) -> Any:
        if tensor.layout is not self._strided:
            return id(tensor), tensor._version
        key = self._known_tid(tensor)
        handles, copies = getattr(self.context, "tid_to_weakhandle", {}), getattr(self.context, "cloned", {})
        while (handle := handles.get(key)) is not None and handle in copies:
            key = (*key, "anew")
        return key

    def _memory(self, tensor: Any) -> Any:
        if tensor.layout is not self._strided:
            return id(tensor), tensor._version
        address, version = self._known_sid(tensor)
        if not address:  # a fake tensor, or an empty one
            return address, version
        try:
            return tensor.untyped_storage().data_ptr(), version
        except (NotImplementedError, RuntimeError):
            return address, version


# The random numbers of a run that is to be compared with another: where they start, and how far they have come.


def seed(torch: Any) -> None:
    """Programs that set no seed must be comparable too; one that does sets it later."""
    random.seed(0)
    os.register_at_fork(after_in_child=lambda: random.seed(0))  # Python seeds it anew in each fork (Lib/random.py)
    torch.manual_seed(0)
    try:
        import numpy

        numpy.random.seed(0)
    except ImportError:
        pass


def draws(torch: Any) -> str:
    """How far the program has come in its random numbers: equal in two runs that have drawn as many."""
    with torch._C.DisableTorchFunction():  # no mode, ours or the program's, is to see thousands of numbers read
        drawn = bytes(torch.get_rng_state().tolist())
    states = [drawn, repr(random.getstate()).encode()]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states.append(repr([getattr(part, "tolist", lambda part=part: part)() for part in numpy.get_state()]).encode())
    return hashlib.blake2b(b"".join(states), digest_size=8).hexdigest()


# Views one by one, for a reference run: what ``unbind``, ``chunk`` and ``split`` give, each from a call of its own.
# Autograd refuses writes into the outputs of a call that returns several views, and tracks the same writes into views
# that were made singly. So this lets a program that was refused go on with the numbers and gradients that its author
# meant.


class SingleViews(TorchFunctionMode):
    """Takes the place of the calls that return several views."""

    def __init__(self) -> None:
        super().__init__()
        singly = {n: _cut(getattr(torch, n)) for n in ("chunk", "split", "tensor_split")}
        singly["unbind"] = lambda tensor, dim=0: tuple(tensor.select(dim, i) for i in range(tensor.size(dim)))
        self._known = {getattr(of, name): own for name, own in singly.items() for of in (torch, torch.Tensor)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = self._known.get(func)
        if own is not None and args and isinstance(args[0], torch.Tensor):
            return own(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _cut(function: Callable[..., Any]) -> Callable[..., Any]:
    def cut(tensor: Any, sizes: Any, dim: int = 0) -> tuple[Any, ...]:
        with torch.no_grad():
            lengths = [part.size(dim) for part in function(tensor.detach(), sizes, dim)]
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        return tuple(tensor.narrow(dim, s, n) for s, n in zip(starts, lengths, strict=True))

    return cut
