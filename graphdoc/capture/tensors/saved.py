"""Saved tensors: which of them have hooks, so that nobody unpacks them by looking, and what a node has saved.

Unpacking runs the user's code: the forward of a checkpointed block, the load of what was moved to disk, whatever
``saved_tensors_hooks`` was given. What has hooks has no version check either (saved_variable.cpp), so nothing is lost.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from torch._C._autograd import SavedTensor

from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import numbers_of

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

TELLS = hasattr(SavedTensor, "unpack_hook")
"""Whether a saved tensor says by itself if it has hooks: it does from PyTorch 2.10 on, those before cannot be asked."""

_used = False
"""Where it does not: whether the program has used hooks at all. Then any saved tensor may have them."""


def watch_hooks(witness: Witness) -> None:
    """Note from now on whether hooks are used, where saved tensors do not tell.

    Hooks that are given to one saved tensor (``SavedTensor.register_hooks``) are not seen so.
    """

    def note(used: bool, *_: Any) -> None:
        global _used
        _used = used

    if not TELLS:
        witness.undoing.append(functools.partial(note, False))
        hooks, using = witness.torch.autograd.graph.saved_tensors_hooks, functools.partial(note, True)
        if not witness.watch(hooks, "__enter__", "hooks of saved tensors", before=using):
            using()


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


# What a node has saved, whatever its version: ``SavedTensor.data`` shows it from PyTorch 2.10 on, before that a hook.
# ``SavedTensor.register_hooks`` hands the saved tensor to the pack hook at once, without a look at its version, and
# the unpack hook answers for it from then on (torch/csrc/autograd/saved_variable.cpp, tried with 2.6, 2.8 and 2.9).
# So what is stale is asked for itself, and whoever reads it later meets the same error as before, raised by no frame
# of ours.

SHOWS = hasattr(SavedTensor, "data")
"""Whether a saved tensor is shown where its version is wrong: not by PyTorch 2.6 to 2.9, by 2.10 and later."""

_raise = ctypes.PYFUNCTYPE(None, *[ctypes.py_object] * 3)(("PyErr_SetObject", ctypes.pythonapi))
"""Raises a type with a text and leaves no frame in the traceback. The C function takes no third argument."""

_asked: dict[tuple[str, int, str, str], list[Ref]] = {}
"""What was asked for, by node, attribute and error: a saved tensor takes hooks only once. Nothing is kept alive."""


def contents(node: Any, name: str) -> list[Any]:
    """The tensors behind ``_saved_x`` of a node whose graph goes on to be used; they must have no hooks.

    Raises:
        RuntimeError: released, or (where PyTorch does not show it) written to since.
    """
    return [t for one in _each(node, f"_raw{name}" if SHOWS else name) if (t := one.data if SHOWS else one) is not None]


def stale_contents(node: Any, name: str) -> list[Any]:
    """The tensors behind a stale ``_saved_x``, or ``saved_tensors`` of a Function; empty where they cannot be had."""
    try:
        raw = _each(node, "_raw_saved_tensors" if name == "saved_tensors" else f"_raw{name}")
        return [r.data for r in raw if getattr(r, "data", None) is not None] if SHOWS else _ask(node, name, raw)
    except Exception:
        return []


def numbers(node: Any, name: str) -> Any:
    """The numbers of a saved tensor; None where they cannot be read, or reading them would run code of the user's."""
    if may_be_hooked(getattr(node, f"_raw_saved_{name}", None)):
        return None
    try:
        return numbers_of(getattr(node, f"_saved_{name}"))
    except RuntimeError:
        return None  # it was changed in place since


def signed(number: Any) -> int:
    """A saved dimension or position: a negative one comes as the unsigned number of its bits."""
    value = int(number)
    return value - 2**64 if value >= 2**63 else value


def _each(node: Any, name: str) -> Any:
    group = getattr(node, name)
    return group if isinstance(group, tuple | list) else (group,)


def _ask(node: Any, name: str, raw: Any) -> list[Any]:
    try:
        return [t for t in _each(node, name) if t is not None]  # no version tells of the write: its check has to stay
    except RuntimeError as e:
        error = str(e)
    key = (node.name(), node._sequence_nr(), name, error)
    known = [t for ref in _asked.get(key, ()) if (t := ref()) is not None]
    if known:
        return known
    out: list[Any] = []

    def keep(tensor: Any) -> Any:
        out.append(tensor.requires_grad_() if "which is output" in error else tensor)  # it comes detached
        return tensor

    for one in raw:
        try:
            # Several are read together, so that one that raises speaks for all of them.
            one.register_hooks(keep, functools.partial(_raise, RuntimeError, error))
        except (RuntimeError, AttributeError):
            pass  # hooks of somebody else; nothing was saved
    for gone in [k for k, refs in _asked.items() if all(ref() is None for ref in refs)]:
        del _asked[gone]
    _asked[key] = [Ref(t) for t in out]
    return out
