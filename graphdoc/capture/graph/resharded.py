"""The module of FSDP2 whose parameters backward met without their memory: did its pre-backward hook run, and what was
written in place into what it returned.

``fully_shard`` frees the gathered parameters after the forward and gathers them again in a hook on each tensor that the
module returns (``FSDPState._register_pre_backward_hook``). A hook of a tensor belongs to its ``grad_fn``. An in-place
write into a view gives the view another one (``CopySlices`` and what leads from there), which has no such hook.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphdoc.capture.graph import walk
from graphdoc.capture.places.frames import frames_of
from graphdoc.capture.tensors.facts import storage_of

if TYPE_CHECKING:
    from graphdoc.capture.graph.autopsy import Autopsy
    from graphdoc.evidence import Evidence

FREED = "out of bounds for storage of size 0"
"""How PyTorch says that a tensor has no memory any more (aten/src/ATen/native/Resize.h)."""
_STATE = "torch.distributed.fsdp._fully_shard._fsdp_state"


def fill(evidence: Evidence, autopsy: Autopsy) -> None:
    """Tell it in ``extras["resharded"]``; nothing where the failing node has saved no parameter of such a module."""
    if FREED not in evidence.message or autopsy.failing < 0:
        return
    failing = autopsy.order[autopsy.failing]
    for state, group in _groups():
        if not walk.saved_in(failing.node, _memory(group)):
            continue
        modules = list(getattr(state, "_modules", ()))
        codes = {getattr(type(m).forward, "__code__", None) for m in modules}
        writes = _writes(autopsy)
        evidence.extras["resharded"] = {
            "module": str(getattr(group, "_module_fqn", None) or ""),
            "classes": [type(m).__name__.removeprefix("FSDP") for m in modules],
            "gathered": str(getattr(state._training_state, "name", "")) == "PRE_BACKWARD",
            "writes": [w for w in (_told(evidence, autopsy, number, codes) for number in writes) if w is not None],
        }
        return


def _groups() -> Iterator[tuple[Any, Any]]:
    """Each state of FSDP2's that is alive, with each group of parameters that it gathers."""
    module = sys.modules.get(_STATE)
    kind = getattr(module, "FSDPState", None)
    for state in gc.get_objects() if kind is not None else ():
        if type(state) is kind:
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


def _told(evidence: Evidence, autopsy: Autopsy, number: int, forwards: set[Any]) -> dict[str, Any] | None:
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
