"""Facts about a tensor's numbers: how many are zero, negative or not finite, where the first is, how far they reach.

The only place where values are turned into evidence: counts, extremes and positions, no contents (docs/privacy.md).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from graphdoc.capture.tensors.facts import extent_of, version_of
from graphdoc.capture.tensors.living import Ref

MOST_ELEMENTS = 50_000_000
"""Of a tensor that is looked at."""


def local_of(tensor: Any) -> Any:
    """The part of a DTensor that lies in this process, any other tensor itself: to ask a DTensor as a whole would take
    all processes."""
    cls = type(tensor)
    if cls.__name__ == "DTensor" and cls.__module__.startswith("torch.distributed"):
        return getattr(tensor, "_local_tensor", tensor)
    return tensor


def has_memory(tensor: Any) -> bool:
    """Whether the numbers of a tensor can be read where it stands. Every reader of the capture asks this first.

    Not on the meta device, of a fake or any other tensor whose class runs the operations (``__torch_dispatch__``), not
    inside torch.func, while a CUDA graph is captured, or where the storage has been given back and the tensor kept
    (``resize_(0)``, as FSDP does): a kernel does not check that, it reads address 0 and the process ends.
    """
    try:
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            return False
        if tensor.layout is not torch.strided or tensor.is_meta:
            return False
        extent = extent_of(tensor)
        if extent is None or tensor.untyped_storage().nbytes() < extent[1] * tensor.element_size():
            return False
        return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    except Exception:
        return False


def numbers_of(tensor: Any) -> Any:
    """A tensor's numbers in this process, outside of the graph, or None where they cannot be read (``has_memory``)."""
    tensor = local_of(tensor)
    return tensor.detach() if has_memory(tensor) else None


def is_zero(tensor: Any) -> bool:
    """Whether all numbers of a tensor are zero; False where they cannot be read."""
    numbers = numbers_of(tensor)
    return numbers is not None and not bool(numbers.any())


def some_of(numbers: Any, most: int) -> Any:
    """Some numbers from all over a tensor, flat: all of them where it has no more, else fewer than twice as many."""
    flat = numbers.reshape(-1)
    return flat[:: max(1, flat.numel() // most)]


def looked_at(tensor: Any) -> bool:
    """Whether a tensor has numbers that can be read and may be not finite: floating-point or complex, not of a user's
    subclass."""
    try:
        return bool(
            type(tensor).__module__.startswith("torch")
            and (tensor.is_floating_point() or tensor.is_complex())
            and 0 < tensor.numel() <= MOST_ELEMENTS
            and has_memory(tensor)
        )
    except Exception:
        return False


def is_finite(torch: Any, tensor: Any) -> bool:
    """Whether all elements are; True for what is not looked at."""
    tensor = local_of(tensor)
    return not looked_at(tensor) or bool(torch.isfinite(tensor).all())


def describe(torch: Any, tensor: Any) -> dict[str, Any]:
    """Counts, extremes of the finite elements, and for each kind of element the position of its first one; of complex
    numbers those of their moduli."""
    tensor = local_of(tensor)
    out: dict[str, Any] = {
        "shape": [int(s) for s in tensor.shape],
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "n": int(tensor.numel()),
    }
    if not looked_at(tensor):
        if tensor.dtype is torch.bool and tensor.numel() and has_memory(tensor):
            out["true"] = int(tensor.sum())
        return out
    flat = tensor.detach().abs() if tensor.is_complex() else tensor.detach()
    kinds = {
        "nan": torch.isnan(flat),
        "inf": torch.isinf(flat),
        "zeros": flat == 0,
        "negative": flat < 0,
        "ones": flat.abs() == 1,
    }
    first: dict[str, list[int]] = {}
    for name, mask in kinds.items():
        out[name] = int(mask.sum())
        if out[name]:
            first[name] = [int(i) for i in position(tensor.shape, int(mask.flatten().to(torch.uint8).argmax()))]
    out["first"] = first
    finite = flat[torch.isfinite(flat)]
    if finite.numel():
        out["min"], out["max"] = float(finite.min()), float(finite.max())
    out["minus_inf"] = int((flat == -float("inf")).sum())
    return out


def position(shape: Any, flat: int) -> list[int]:
    """The indices of the element with this number, counted in the order of the shape."""
    out: list[int] = []
    for size in reversed([int(s) for s in shape]):
        out.insert(0, flat % size if size else 0)
        flat //= size or 1
    return out


# Whether numbers of 16 bits move, told from a few of them.

MOST_SAMPLED = 64
"""Parameters of which numbers are read at one step; of each at most so many:"""
MOST_NUMBERS = 256


def _few_of(tensor: Any) -> Any:
    """Some of its numbers, in memory of their own."""
    few = tensor.reshape(-1)[:: tensor.numel() // MOST_NUMBERS + 1].cpu()
    return few.clone(memory_format=torch.contiguous_format)


class Sample:
    """Numbers of some parameters of 16 bits as they stand after a step: their bits, and which have a gradient."""

    def __init__(self, parameters: list[Any], short: tuple[Any, ...]) -> None:
        mine = [p for p in parameters if p.dtype in short and p.numel()]
        whole = sum(p.numel() for p in mine)
        mine = mine[:: len(mine) // MOST_SAMPLED + 1]
        self.dtype = str(mine[0].dtype).removeprefix("torch.") if mine else ""
        self._read: dict[int, tuple[float, Any, Any]] = {}
        """By the parameter's id: how many each number stands for, the bits, and whether it has a gradient."""
        self._versions: dict[int, tuple[Ref, int]] = {}
        sizes = []
        share = whole / max(sum(p.numel() for p in mine), 1)
        for p in mine:
            numbers, grad = numbers_of(p), numbers_of(p.grad)
            if numbers is None or grad is None or grad.shape != numbers.shape:
                continue
            few, asked = _few_of(numbers), _few_of(grad)
            self._read[id(p)] = share * numbers.numel() / max(few.numel(), 1), few.view(torch.int16), asked != 0
            self._versions[id(p)] = Ref(p), version_of(p)
            sizes.append(few.abs().float())
        self.others = float(sum(p.numel() for p in parameters if p.dtype not in short))
        """Elements of more bits, which are taken to move."""
        size = float(torch.cat(sizes).median()) if sizes else 0.0
        apart_by = torch.finfo(mine[0].dtype).eps if mine else 0.0
        self.apart = apart_by * 2.0 ** math.floor(math.log2(size)) if size > 0 and math.isfinite(size) else 0.0
        """How far the number that stands in the middle of all by its size is from the next one."""

    def written(self) -> set[int]:
        """The parameters, ids, to which somebody has written since; all of them, where no version tells of a write."""
        alive = {i: (p, version) for i, (ref, version) in self._versions.items() if (p := ref()) is not None}
        known = {i for i, (p, version) in alive.items() if version_of(p) != version}
        now = ((i, numbers_of(p)) for i, (p, _) in alive.items() if i not in known)
        hidden = any(n is not None and not self._read[i][1].equal(_few_of(n).view(torch.int16)) for i, n in now)
        return {*alive} if hidden else known

    def unmoved(self, first: Sample) -> set[int]:
        """The parameters that have gradients, ids, and are bit by bit what they were."""
        both = ((i, e[1], e[2], first._read.get(i)) for i, e in self._read.items())
        return {i for i, bits, asked, was in both if was is not None and bool(asked.any()) and bits.equal(was[1])}

    def still(self, before: Sample) -> float | None:
        """The part of all elements with a gradient that are bit by bit what they were; None where none is known."""
        weight, still = self.others, 0.0
        for ident, (each, bits, asked) in self._read.items():
            earlier = before._read.get(ident)
            if earlier is not None and earlier[1].shape == bits.shape:
                weight += each * int(asked.sum())
                still += each * int((asked & (bits == earlier[1])).sum())
        return still / weight if weight > self.others else None
