"""What an elementary operation of PyTorch takes, writes to and where its numbers stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch

from graphdoc.capture.code_places import is_user_file
from graphdoc.capture.number_facts import local_of, looked_at

if TYPE_CHECKING:
    pass


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in arguments: lists and dicts as operators take them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)


def home_of(tensor: Any) -> int:
    """The memory that a tensor's numbers stand in; 0 where it has none of its own."""
    try:
        return int(local_of(tensor).untyped_storage()._cdata)
    except Exception:
        return 0


def is_whole(tensor: Any) -> bool:
    """Whether a tensor is all that its memory holds: what is written to it leaves nothing of what was there."""
    return int(tensor.numel() * tensor.element_size()) >= int(tensor.untyped_storage().nbytes())


_mutating: dict[Any, bool] = {}


def writes_over(func: Any) -> bool:
    known = _mutating.get(func)
    if known is None:
        infos = [a.alias_info for a in func._schema.arguments]
        known = _mutating[func] = any(i is not None and i.is_write for i in infos)
    return known


def written_by(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that an operator writes to, by its schema."""
    out = []
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            out.append(args[number] if number < len(args) else kwargs.get(argument.name))
    return out


def is_constant(args: Iterable[Any]) -> bool:
    """Whether a number among the arguments is itself not finite: ``masked_fill(mask, -inf)``."""
    return any(isinstance(a, float) and not isfinite(a) for a in args)


def rows_out(inputs: list[Any]) -> int:
    """In how many rows along the last dimension all elements are -inf."""
    return max((int((t == -float("inf")).all(-1).sum()) for t in inputs if looked_at(t) and t.dim()), default=0)


_BETWEEN = ("_python_dispatch.py", "_ops.py", "eval_frame.py", "_compile.py")
"""Files of PyTorch whose functions stand between an operation's caller and a mode."""


def asked_by_user(raw: Any) -> bool:
    """Whether the user's own line asked for memory; a library's function fills what it asks for."""
    for code in raw.raw[::2]:
        name = code.co_filename
        if is_user_file(name):
            return True
        if not name.endswith(_BETWEEN):
            return False
    return False
