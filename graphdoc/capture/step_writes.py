"""How far one step of an optimizer moves the version counter of a parameter: the one table of it.

They count the in-place operations on the parameter in an optimizer's ``_single_tensor_…`` and ``_multi_tensor_…``
functions (torch/optim, 2.6 to 2.15), and ``tests/capture/test_step_writes.py`` measures them for each optimizer and its
options. A fused kernel writes without counting.
"""

from __future__ import annotations

from typing import Any

UNKNOWN = -1
"""An optimizer of another maker, or one whose number of writes depends on the data (the line search of ``LBFGS``)."""

_ONE_STEP = {
    "ASGD": 2,
    "Adadelta": 1,
    "Adafactor": 1,
    "Adagrad": 1,
    "Adam": 1,
    "AdamW": 1,
    "Adamax": 1,
    "Muon": 2,
    "NAdam": 2,
    "RAdam": 1,
    "RMSprop": 1,
    "Rprop": 1,
    "SGD": 1,
    "SparseAdam": 1,
}
_OF_MANY = {"ASGD": 1}
"""The same where one operation serves many tensors (``foreach``), as far as it differs."""
_DECAYS = frozenset(("Adam", "AdamW", "NAdam", "RAdam", "Adafactor"))
"""Those that decay the parameter by an operation of its own, where they decay it apart from the gradient."""


def versions_of(optimizer: Any, parameter: Any) -> int:
    """How far a step of ``optimizer`` moves the version of ``parameter``, if that has a gradient, or UNKNOWN."""
    cls = next((c for c in type(optimizer).__mro__ if "step" in vars(c)), None)
    if cls is None or not str(cls.__module__).startswith("torch.optim"):
        return UNKNOWN
    group = next((g for g in optimizer.param_groups if any(p is parameter for p in g["params"])), None)
    if group is None or group.get("differentiable"):
        return UNKNOWN
    return versions(cls.__name__, group, bool(getattr(parameter, "is_cuda", False)))


def versions(name: str, options: dict[str, Any], cuda: bool = False) -> int:
    """The same from the name of PyTorch's class and a parameter group's options.

    ``cuda``: the parameter lies on a GPU, where ``foreach`` is the default.
    """
    if options.get("fused"):
        return 0
    many = options.get("foreach")
    each = _OF_MANY.get(name) if many or (many is None and cuda) else None
    if each is None:
        each = _ONE_STEP.get(name, UNKNOWN)
    apart = options.get("decoupled_weight_decay", name in ("AdamW", "Adafactor"))
    decays = name in _DECAYS and apart and options.get("weight_decay", 0) != 0
    if name == "AdamW" and "decoupled_weight_decay" not in options and not many and not cuda:
        decays = True  # PyTorch 2.6 multiplies by one as well
    return each + 1 if decays and each != UNKNOWN else each
