"""The program with the whole batch in place of its parts: one process for all ranks, one batch for all micro-batches.

What a step's samples are is measured, in both runs: the sums of all that enters a module from outside do not change
with how a batch is cut. For runs that graphdoc starts by itself alone.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from graphdoc.capture.tensors.number_facts import numbers_of
from graphdoc.capture.trials.reference import draws

if TYPE_CHECKING:
    from graphdoc.capture.trials.comparing import Compared

BUCKETS = 64
"""Kinds of integers that are told apart; among these the number that fills a batch up counts for one."""


def sums_of(torch: Any, tensor: Any) -> list[float]:
    """What parts of a tensor add up to, however it was cut: of integers how many are of each kind, of other numbers
    their first three moments, to which a zero adds nothing."""
    flat = tensor.reshape(-1)
    if not flat.is_floating_point():
        kinds = (flat.to(torch.int64) * 40503 >> 3) % BUCKETS
        return [float(n) for n in torch.bincount(kinds, minlength=BUCKETS).tolist()]
    flat = flat.to("cpu", torch.float64)
    return [float(x.sum()) for x in (flat, flat.abs(), flat.square(), flat.abs() ** 3)]


def watch_data(trace: Compared) -> None:
    """Note the sums of what enters a module that no other one has called, whether this draws random numbers, and how
    large batches are."""
    torch = trace.torch
    from torch.utils.data import BatchSampler
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    call = torch.nn.Module._call_impl

    def entered(args: Any, kwargs: Any) -> None:
        for slot, value in torch.utils._pytree.tree_flatten_with_path((args, kwargs))[0]:
            if isinstance(value, torch.Tensor) and not value.requires_grad and value.dim():
                numbers = numbers_of(value)
                if numbers is not None and not numbers.is_complex():
                    name = torch.utils._pytree.keystr(slot)
                    trace.write({"k": "data", "at": trace.steps, "slot": name, "sums": sums_of(torch, numbers)})

    @wraps(call)
    def called(module: Any, *args: Any, **kwargs: Any) -> Any:
        if trace.modules or not trace.looks or not torch.is_grad_enabled():
            return call(module, *args, **kwargs)
        trace._guard(entered, args, kwargs)
        before = draws(torch)
        result = call(module, *args, **kwargs)
        if draws(torch) != before:
            trace.write({"k": "random"})
        return result

    torch.nn.Module._call_impl = called
    made = BatchSampler.__init__
    number = iter(range(10**9))

    @wraps(made)
    def making(sampler: Any, *args: Any, **kwargs: Any) -> None:
        made(sampler, *args, **kwargs)
        at = next(number)
        if at < len(trace.batches):
            sampler.batch_size = trace.batches[at]
        trace.write({"k": "batches", "size": sampler.batch_size})

    following, length = _BaseDataLoaderIter.__next__, BatchSampler.__len__

    def again(batches: Any) -> Any:
        batch, left = batches.__dict__.get("_graphdoc", (None, 0))
        if not left:
            batch, left = following(batches), trace.repeated
        batches._graphdoc = batch, left - 1
        return batch

    setattr(_BaseDataLoaderIter, "__next__", again)  # noqa: B010 (so it is here)
    setattr(BatchSampler, "__len__", lambda sampler: trace.repeated * length(sampler))  # noqa: B010 (and here)
    setattr(BatchSampler, "__init__", making)  # noqa: B010 (a plain assignment is no valid type)


def be_alone(trace: Compared) -> None:
    """Let this process be the only one of the program's ranks, or leave; note how many the program itself says there
    are."""
    torch = trace.torch
    _leave_others(int(os.environ.get("RANK", "0")))
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d
    from torch.utils.data import DistributedSampler

    def one(given: dict[str, Any]) -> None:
        rank = given.get("rank", -1)
        _leave_others(int(os.environ.get("RANK", "0")) if rank is None or rank < 0 else rank)
        if (given.get("world_size") or 1) > 1:
            trace.write({"k": "ranks", "told": given["world_size"]})
        given.update({name: value for name, value in (("rank", 0), ("world_size", 1)) if name in given})

    begin = _with(distributed_c10d.init_process_group, one)
    torch.distributed.init_process_group = distributed_c10d.init_process_group = begin
    whole = _with(DistributedSampler.__init__, lambda given: given.update(num_replicas=1, rank=0))
    DistributedSampler.__init__ = whole  # type: ignore[method-assign]


def _leave_others(rank: int) -> None:
    if rank > 0:
        os._exit(0)  # whoever started it takes that for done, and waits for the others
    if "RANK" in os.environ:
        os.environ.update(WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")


def _with(function: Callable[..., Any], change: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """The function, whose arguments are changed first."""
    signature = inspect.signature(function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        change(bound.arguments)
        return function(*bound.args, **bound.kwargs)

    return called
