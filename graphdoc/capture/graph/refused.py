"""The tensor that an optimizer refused because it is no leaf: which of those given, what made it, what is behind it."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from graphdoc.capture.graph import walk
from graphdoc.capture.places.code_places import entries_of
from graphdoc.capture.places.frames import frames_of

if TYPE_CHECKING:
    from graphdoc.capture.graph.autopsy import Autopsy
    from graphdoc.evidence import Evidence

MOST_LEAVES = 4


def fill(evidence: Evidence, autopsy: Autopsy) -> None:
    """Tell it in ``extras["refused"]``.

    ``Optimizer.add_param_group`` checks the tensors one after the other, in the local names ``param`` and
    ``param_group`` (torch/optim/optimizer.py); the exception's traceback holds its frame.
    """
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    values = _checked(getattr(error, "__traceback__", None))
    if values is None:
        return
    tensor, group = values["param"], values.get("param_group")
    given = group.get("params") if isinstance(group, dict) else None
    node = tensor.grad_fn
    census = autopsy.census
    leaves = [f.leaf for f in walk.walk([node], walk.DEEP - 1) if f.leaf is not None]
    evidence.extras["refused"] = {
        "position": next((i for i, t in enumerate(given) if t is tensor), -1) if isinstance(given, list) else -1,
        "given": len(given) if isinstance(given, list) else 0,
        "shape": [int(s) for s in tensor.shape],
        "op": str(node.name()),
        "made": [vars(f) for f in frames_of(autopsy.raw_stack(node), autopsy.cwd)],
        "names": [h.path for h in census.holders(id(tensor), True, autopsy.cwd)][:3],
        "leaves": [_named(autopsy, leaf) for leaf in leaves[:MOST_LEAVES]],
        "more": max(0, len(leaves) - MOST_LEAVES),
    }


def _checked(trace: TracebackType | None) -> dict[str, Any] | None:
    """The local names of the check that refused, or None where the exception is another one."""
    found: dict[str, Any] | None = None
    for entry in entries_of(trace):
        code = entry.tb_frame.f_code
        if code.co_name == "add_param_group" and code.co_filename == sys.modules["torch.optim.optimizer"].__file__:
            values = entry.tb_frame.f_locals
            tensor = values.get("param")
            found = dict(values) if getattr(tensor, "grad_fn", None) is not None else None
    return found


def _named(autopsy: Autopsy, leaf: Any) -> dict[str, Any]:
    name = autopsy.census.parameter_names.get(id(leaf), "")
    if not name:
        holders = autopsy.census.holders(id(leaf), True, autopsy.cwd)
        name = min((h.path for h in holders), key=len, default="")
    return {"name": name, "shape": [int(s) for s in leaf.shape]}
