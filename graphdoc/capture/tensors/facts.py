"""What a tensor or a frame says of itself when asked carefully: no question here can raise or warn."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FrameType
from typing import Any

from graphdoc.capture.places.code_places import entries_of, is_user_file, outwards


def user_frames(frame: FrameType | None) -> list[FrameType]:
    """The user's frames from here outwards."""
    return [f for f in outwards(frame) if is_user_file(f.f_code.co_filename)]


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost of them."""
    return next((f for f in outwards(frame) if is_user_file(f.f_code.co_filename)), None)


def frames_of_traceback(tb: Any) -> list[FrameType]:
    """The user's frames of a traceback, innermost first."""
    return [t.tb_frame for t in entries_of(tb) if is_user_file(t.tb_frame.f_code.co_filename)][::-1]


def inside_of_func(tensor: Any, torch: Any) -> Any:
    """What a transform of torch.func (``grad``, one in another) computes with in place of this tensor; outside of them
    the tensor itself. A ``vmap`` holds many of it, and is left as it is."""
    functorch = torch._C._functorch
    while functorch.is_gradtrackingtensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def grad_fn_of(tensor: Any) -> Any:
    """``tensor.grad_fn`` or None; reading it can raise for a view made under no_grad and written to since."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def is_leaf(tensor: Any) -> bool:
    """``tensor.is_leaf``; reading it raises, as that of ``grad_fn`` does, for one of several views whose base has been
    written (``torch.unbind`` of a parameter that was stepped): such a view is a result."""
    try:
        return bool(tensor.is_leaf)
    except RuntimeError:
        return False


def parameters_of(optimizer: Any) -> list[Any]:
    """The parameters that an optimizer holds; none where its groups are not what PyTorch makes of them."""
    groups = optimizer.param_groups
    return [p for group in groups for p in held_by(group)] if isinstance(groups, list) else []


def held_by(group: dict[str, Any]) -> Any:
    """The parameters of one group; none where a program has put an iterator there, which a look would use up."""
    given = group["params"]
    return () if hasattr(type(given), "__next__") else given


def has_gradient(optimizer: Any) -> bool:
    """Whether one of these parameters has a gradient: nearly always the first, and no list of all is made."""
    groups = optimizer.param_groups
    return isinstance(groups, list) and any(p.grad is not None for group in groups for p in held_by(group))


def is_training(module: Any) -> bool:
    """``module.training`` as it stands there: a class may make it a property, and reading that would run its code."""
    return object.__getattribute__(module, "__dict__").get("training") is True


def instances_of(kind: type) -> Iterator[Any]:
    """Every object of this class that is alive; never by ``isinstance``, which would touch lazy proxies."""
    return (o for o in gc.get_objects() if kind in type(o).__mro__)


def is_hooked(leaf: Any) -> bool:
    """Whether a hook takes what a leaf is given as its gradient."""
    return bool(leaf._backward_hooks or leaf._post_accumulate_grad_hooks)


def steps_alone(optimizer: Any) -> bool:
    """Whether a step is PyTorch's alone: nothing of the program's runs in it."""
    hooks = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    own = not any(getattr(optimizer, name, None) for name in hooks)
    return own and type(optimizer).step.__module__.startswith("torch.optim.")


def shape_of(tensor: Any) -> list[int]:
    """The shape; empty for a tensor that has none (nested, or with sizes not known yet)."""
    try:
        return [int(s) for s in tensor.shape]
    except Exception:
        return []


def version_of(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except Exception:
        return -1  # inference tensors keep no version counter


def storage_of(tensor: Any) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)
    except Exception:
        return None  # sparse and other tensors without storage


def extent_of(tensor: Any) -> tuple[int, int] | None:
    """Where in its storage the elements of a tensor lie: the first, and one behind the last."""
    try:
        first = int(tensor.storage_offset())
        pairs = list(zip(tensor.size(), tensor.stride(), strict=True))
        return first, first + (sum((n - 1) * step for n, step in pairs) + 1 if all(n for n, _ in pairs) else 0)
    except Exception:
        return None
