"""Operations of a run that is compared with one in other numbers: random ones draw alike, the others compute in double.

Below autograd, which neither sees nor minds it. For runs that graphdoc starts by itself alone.
"""

from __future__ import annotations

import re
from typing import Any

_DEVICE = re.compile(r"(?:cuda|xpu|mps|hpu|npu|xla)(?::\d+)?")


def alike(torch: Any, func: Any, args: Any, kwargs: Any, double: bool) -> Any:
    """A random operation, drawn on the CPU, and for one in ``double`` as float32 would draw: another dtype or device
    has another stream of numbers."""
    name = func._schema.name
    if name == "aten::native_dropout" and args[2] is not False:
        kept = torch.empty(args[0].shape).bernoulli_(1 - args[1]).to(args[0].device)  # as on the CPU
        return args[0] * (kept / (1 - args[1]) if args[1] < 1 else kept).to(args[0].dtype), kept.bool()
    written = _written(torch, func, args, kwargs)
    device = next((t.device for t in _tensors(torch, args, kwargs)), kwargs.get("device"))

    def plain(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to("cpu", torch.float32 if double and value.dtype is torch.float64 else value.dtype)

    try:
        drawn = {id(t): plain(t) for t in _tensors(torch, args, kwargs)}
        other = {**kwargs, "device": "cpu"} if kwargs.get("device") is not None else kwargs
        result = func(*_with(torch, args, drawn), **_with(torch, other, drawn))
        for tensor in written:
            tensor.copy_(drawn[id(tensor)])
    except (RuntimeError, TypeError):
        return func(*args, **kwargs)  # of another device's own, say

    def back(value: Any) -> Any:
        original = next((t for t in written if drawn[id(t)] is value), None)
        if original is not None or not isinstance(value, torch.Tensor):
            return value if original is None else original
        dtype = torch.float64 if double and _is_low(torch, value) else value.dtype
        return value.to(device or value.device, dtype)

    return torch.utils._pytree.tree_map(back, result)


_SHAPING = ("resize_", "set_", "resize_as_")


def doubled(torch: Any, func: Any, args: Any, kwargs: Any, in_backward: bool) -> Any:
    """The operation in float64 wherever it is one in lower precision. What takes no doubles runs as it is: so does the
    engine when it gives a gradient the dtype that it is to have (``in_backward``)."""
    schema = func._schema
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    as_it_is = torch.Tag.inplace_view in func.tags or schema.name.endswith(_SHAPING)
    if as_it_is or (views and schema.name != "aten::lift_fresh") or (in_backward and schema.name == "aten::_to_copy"):
        return func(*args, **kwargs)
    tensors = _tensors(torch, args, kwargs)
    written = _written(torch, func, args, kwargs)
    wanted = dict(kwargs)
    if getattr(wanted.get("dtype"), "is_floating_point", False):
        wanted["dtype"] = torch.float64
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return _in(torch, func, args, wanted, {id(t): t.double() for t in tensors if _is_low(torch, t)}, written)
    except (RuntimeError, TypeError):
        single = {id(t): t.float() for t in tensors if t.dtype is torch.float64 and t.numel() == 1}
    finally:
        torch.set_default_dtype(default)
    try:
        return func(*args, **kwargs)
    except RuntimeError:
        if not single:
            raise
        return _in(torch, func, args, kwargs, single, written)  # a scale, say, which has to be a float


def _in(torch: Any, func: Any, args: Any, kwargs: Any, others: dict[int, Any], written: list[Any]) -> Any:
    """The operation on ``others`` in the place of these tensors, by id; what it gives is in float64."""
    result = func(*_with(torch, args, others), **_with(torch, kwargs, others))
    exchanged = [t for t in written if id(t) in others]
    for tensor in exchanged:
        tensor.copy_(others[id(tensor)])
    originals = {id(others[id(t)]): t for t in exchanged}

    def back(value: Any) -> Any:
        if id(value) in originals:
            return originals[id(value)]
        return value.double() if isinstance(value, torch.Tensor) and _is_low(torch, value) else value

    return torch.utils._pytree.tree_map(back, result)


def moving_to_cpu(torch: Any) -> Any:
    """A mode in which what names another device means the CPU."""
    from torch.overrides import TorchFunctionMode

    def here(value: Any) -> Any:
        kind = torch.device(value).type if isinstance(value, str) and _DEVICE.fullmatch(value) else ""
        kind = value.type if isinstance(value, torch.device) else kind
        return torch.device("cpu") if kind not in ("", "cpu", "meta") else value

    class MovingToCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__name__", "") in ("cuda", "xpu"):
                return args[0]
            kwargs = {name: here(value) for name, value in (kwargs or {}).items()}
            return func(*map(here, args), **kwargs)

    return MovingToCpu()


def _is_low(torch: Any, tensor: Any) -> bool:
    return tensor.dtype in (torch.float32, torch.bfloat16, torch.float16)


def _tensors(torch: Any, args: Any, kwargs: Any) -> list[Any]:
    return [v for v in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]


def _with(torch: Any, values: Any, exchanged: dict[int, Any]) -> Any:
    return torch.utils._pytree.tree_map(lambda v: exchanged.get(id(v), v), values)


def _written(torch: Any, func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that the operation writes to."""
    found = []
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(args[number] if number < len(args) else kwargs.get(argument.name))
    return [v for v in torch.utils._pytree.tree_leaves(found) if isinstance(v, torch.Tensor)]
