"""Facts about a tensor's numbers: how many are zero, negative or not finite, where the first is, how far they reach.

The only place where values are turned into evidence: counts, extremes and positions, no contents (docs/privacy.md).
"""

from __future__ import annotations

from typing import Any

import torch

from graphdoc.capture.facts import extent_of

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


def looked_at(tensor: Any) -> bool:
    """Whether a tensor has numbers that can be read and may be not finite: floating-point, not of a user's subclass."""
    try:
        return bool(
            type(tensor).__module__.startswith("torch")
            and tensor.is_floating_point()
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
    """Counts, extremes of the finite elements, and for each kind of element the position of its first one."""
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
    flat = tensor.detach()
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
