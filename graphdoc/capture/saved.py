"""Saved tensors: which of them have hooks, so that nobody unpacks them while only looking.

Unpacking runs the user's code: the forward of a checkpointed block, the load of what was moved to disk, whatever
``saved_tensors_hooks`` was given. What has hooks has no version check either (saved_variable.cpp), so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._C._autograd import SavedTensor

from graphdoc.capture.inserted_calls import CannotInsert, insert_calls

TELLS = hasattr(SavedTensor, "unpack_hook")
"""Whether a saved tensor says by itself if it has hooks: it does from PyTorch 2.10 on, those before cannot be asked."""

_used = False
"""Where it does not: whether the program has used hooks at all. Then any saved tensor may have them."""


def watch_hooks(torch: Any) -> Callable[[], None]:
    """Note from now on whether hooks are used, where saved tensors do not tell; returns what undoes it.

    Hooks that are given to one saved tensor (``SavedTensor.register_hooks``) are not seen so.
    """
    if TELLS:
        return lambda: None

    def before(*_: Any) -> None:
        global _used
        _used = True

    try:
        undo = insert_calls(torch.autograd.graph.saved_tensors_hooks.__enter__, before=before)
    except (CannotInsert, AttributeError):
        before()
        return lambda: None

    def forget() -> None:
        global _used
        _used = False
        undo()

    return forget


def may_be_hooked(group: Any) -> bool:
    """Whether any of these saved tensors (what a ``_raw_saved_…`` attribute gives, one or a tuple) may have hooks."""
    if not TELLS:
        return _used
    each = group if type(group) in (tuple, list) else (group,)
    return any(getattr(r, "unpack_hook", None) is not None for r in each)


def all_unknown() -> bool:
    """Whether nothing can be said of any saved tensor."""
    return not TELLS and _used


def forgets(cls: type) -> bool:
    """Whether this node, a custom Function's, lets its saved tensors go when they are read.

    ``clear_saved_tensors_on_access`` (PyTorch 2.13, torch/autograd/function.py): who reads them takes them away.
    """
    return bool(getattr(getattr(cls, "_forward_cls", None), "clear_saved_tensors_on_access", False))
