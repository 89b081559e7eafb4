"""What else is told of two failures: a tensor that an optimizer refused, and a module whose memory FSDP2 has freed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from graphdoc.capture.graph import walk
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.places.code_places import entries_of
from graphdoc.capture.places.frames import frames_of
from graphdoc.capture.tensors.facts import instances_of, storage_of
from graphdoc.evidence import Evidence

# The tensor that an optimizer refused because it is no leaf: which of those given, what made it, what is behind it.

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


# The module of FSDP2 whose parameters backward met without their memory: did its pre-backward hook run, and what was
# written in place into what it returned.
#
# ``fully_shard`` frees the gathered parameters after the forward and gathers them again in a hook on each tensor that
# the module returns (``FSDPState._register_pre_backward_hook``). A hook of a tensor belongs to its ``grad_fn``. An
# in-place write into a view gives it another one (``CopySlices`` and what leads from there), which has no such hook.

FREED = "out of bounds for storage of size 0"
"""How PyTorch says that a tensor has no memory any more (aten/src/ATen/native/Resize.h)."""
_STATE = "torch.distributed.fsdp._fully_shard._fsdp_state"


def fill_freed(evidence: Evidence, autopsy: Autopsy) -> None:
    """Tell it in ``extras["resharded"]``; nothing where the failing node has saved no parameter of such a module."""
    if FREED not in evidence.message or autopsy.failing < 0:
        return
    failing = autopsy.order[autopsy.failing]
    for state, group in _groups():
        if not walk.saved_in(failing.node, _memory(group)):
            continue
        modules = list(getattr(state, "_modules", ()))
        codes = {getattr(type(m).forward, "__code__", None) for m in modules}
        writes = (_written_into(evidence, autopsy, number, codes) for number in _writes(autopsy))
        evidence.extras["resharded"] = {
            "module": str(getattr(group, "_module_fqn", None) or ""),
            "classes": [type(m).__name__.removeprefix("FSDP") for m in modules],
            "gathered": str(getattr(state._training_state, "name", "")) == "PRE_BACKWARD",
            "writes": [w for w in writes if w is not None],
        }
        return


def _groups() -> Iterator[tuple[Any, Any]]:
    """Each state of FSDP2's that is alive, with each group of parameters that it gathers."""
    module = sys.modules.get(_STATE)
    kind = getattr(module, "FSDPState", None)
    for state in instances_of(kind) if kind is not None else ():
        found = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
        yield from ((state, group) for group in found if group is not None)


def _memory(group: Any) -> set[int | None]:
    """Where the gathered parameters of a group stand."""
    out: set[int | None] = set()
    for parameter in group.fsdp_params:
        gathered = [getattr(parameter, "_unsharded_param", None), *getattr(parameter, "all_gather_outputs", ())]
        out |= {storage_of(t) for t in gathered if t is not None}
    return out - {None}


def _writes(autopsy: Autopsy) -> list[int]:
    """The writes into views on the ways to the failing node, the nearest ones to it first."""
    above = walk.Above(autopsy.order)
    return [n for n in walk.reached([autopsy.failing], above.__getitem__) if "CopySlices" in autopsy.order.op(n)]


def _written_into(evidence: Evidence, autopsy: Autopsy, number: int, forwards: set[Any]) -> dict[str, Any] | None:
    """A write from outside of the module's forward into what was computed inside of it; None for any other."""
    write = autopsy.order[number]
    base = next((node for node, _ in write.node.next_functions[:1]), None)
    if base is None:
        return None
    made, written = autopsy.raw_stack(base), autopsy.raw_stack(write.node)
    if any(code in forwards for code in written[::2]) or not any(code in forwards for code in made[::2]):
        return None
    outermost = max(i for i in range(0, len(made), 2) if made[i] in forwards)
    return {
        "node": autopsy.tell(evidence, number),
        "called": [vars(f) for f in frames_of(made[outermost + 2 :], autopsy.cwd)],
    }
