"""Operations of a run that is compared with one in other numbers: random ones draw alike, the others compute in double.

Below autograd, which neither sees nor minds it. For runs that graphdoc starts by itself alone.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

from graphdoc.capture.births import written_by
from graphdoc.capture.number_facts import has_memory

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
        if not double or not _is_low(torch, value):
            return value.to(device or value.device)
        return _note(value.to(device or value.device, torch.float64), _declared(torch, args, kwargs))

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
    declared = _declared(torch, args, kwargs)
    wanted = dict(kwargs)
    if getattr(wanted.get("dtype"), "is_floating_point", False):
        wanted["dtype"] = torch.float64
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        lower = {id(t): t.double() for t in tensors if _is_low(torch, t)}
        return _in(torch, func, args, wanted, lower, written, declared)
    except (RuntimeError, TypeError):
        single = {id(t): t.float() for t in tensors if t.dtype is torch.float64 and t.numel() == 1}
    finally:
        torch.set_default_dtype(default)
    try:
        return func(*args, **kwargs)
    except RuntimeError:
        if not single:
            raise
        return _in(torch, func, args, kwargs, single, written, declared)  # a scale, say, which has to be a float


def _in(
    torch: Any, func: Any, args: Any, kwargs: Any, others: dict[int, Any], written: list[Any], declared: Any
) -> Any:
    """The operation on ``others`` in the place of these tensors, by id; what it gives is in float64, and known to be
    of the dtype ``declared`` without us."""
    result = func(*_with(torch, args, others), **_with(torch, kwargs, others))
    exchanged = [t for t in written if id(t) in others]
    for tensor in exchanged:
        tensor.copy_(others[id(tensor)])
    originals = {id(others[id(t)]): t for t in exchanged}

    def back(value: Any) -> Any:
        if id(value) in originals:
            return originals[id(value)]
        if not isinstance(value, torch.Tensor):
            return value
        value = value.double() if _is_low(torch, value) else value
        return _note(value, declared) if value.dtype is torch.float64 else value

    return torch.utils._pytree.tree_map(back, result)


# What the program takes for float32 is float64 in memory: `.double()` would be the tensor itself, and `.float()` none.


def _declared(torch: Any, args: Any, kwargs: Any) -> Any:
    """The dtype that the operation's result has in the program's own precision."""
    if getattr(kwargs.get("dtype"), "is_floating_point", False):
        return kwargs["dtype"]
    given = [t for t in _tensors(torch, args, kwargs) if t.is_floating_point()]
    given = [t for t in given if t.dim()] or given  # a number in a tensor does not widen the others
    return reduce(torch.promote_types, map(_dtype_of, given)) if given else torch.get_default_dtype()


def _dtype_of(tensor: Any) -> Any:
    """A tensor's dtype in the program's own precision."""
    return getattr(tensor.untyped_storage(), "_declared", tensor.dtype) if has_memory(tensor) else tensor.dtype


def _note(tensor: Any, dtype: Any) -> Any:
    """The tensor, whose memory is known from now on, with each view of it and each parameter, to be of this dtype."""
    if dtype is not tensor.dtype and has_memory(tensor):
        tensor.untyped_storage()._declared = dtype  # PyTorch keeps the object while anything uses the memory
    return tensor


_DTYPES = {"double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16"}
_CONVERTING = ("to", "type", "type_as", *_DTYPES)


def _converted(torch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """What a conversion of a tensor in float64 gives: the tensor itself where it is one without us, else another."""
    named = _DTYPES.get(func.__name__)
    others = (*args[1:], *kwargs.values())
    meant = (v for v in others if isinstance(v, torch.dtype))
    wanted = getattr(torch, named) if named else next(meant, None)
    if wanted is None:
        wanted = next((_dtype_of(v) for v in others if isinstance(v, torch.Tensor)), None)
    if wanted is None or not wanted.is_floating_point:
        return func(*args, **kwargs)
    kept = {"memory_format": kwargs["memory_format"]} if "memory_format" in kwargs else {}
    copied = kwargs.get("copy", False) or wanted is not _dtype_of(args[0])
    return _note(args[0].to(torch.float64, copy=copied, **kept), wanted)


def moving_to_cpu(torch: Any, double: bool) -> Any:
    """A mode in which what names another device means the CPU; in ``double`` what converts a tensor still does."""
    from torch.overrides import TorchFunctionMode

    gradient = torch.Tensor.grad.__get__

    def here(value: Any) -> Any:
        kind = torch.device(value).type if isinstance(value, str) and _DEVICE.fullmatch(value) else ""
        kind = value.type if isinstance(value, torch.device) else kind
        return torch.device("cpu") if kind not in ("", "cpu", "meta") else value

    class MovingToCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name in ("cuda", "xpu"):
                return args[0]
            args, kwargs = tuple(map(here, args)), {name: here(value) for name, value in (kwargs or {}).items()}
            if double and name in _CONVERTING and args and getattr(args[0], "dtype", None) is torch.float64:
                return _converted(torch, func, args, kwargs)
            result = func(*args, **kwargs)
            if double and func == gradient and result is not None:
                _note(result, _dtype_of(args[0]))  # the engine had nothing to convert
            return result

    return MovingToCpu()


def _is_low(torch: Any, tensor: Any) -> bool:
    return tensor.dtype in (torch.float32, torch.bfloat16, torch.float16)


def _tensors(torch: Any, args: Any, kwargs: Any) -> list[Any]:
    return [v for v in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]


def _with(torch: Any, values: Any, exchanged: dict[int, Any]) -> Any:
    return torch.utils._pytree.tree_map(lambda v: exchanged.get(id(v), v), values)


def _written(torch: Any, func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that the operation writes to."""
    return [v for v in torch.utils._pytree.tree_leaves(written_by(func, args, kwargs)) if isinstance(v, torch.Tensor)]
