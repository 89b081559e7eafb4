"""The tensors near the surface of the live frames, with how each was made: facts for causes without a graph."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

from graphdoc.capture.access_paths import text_of
from graphdoc.capture.code_places import function_of
from graphdoc.capture.facts import grad_fn_of, is_leaf, shape_of
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Frame

if TYPE_CHECKING:
    from graphdoc.capture.autopsy import Autopsy

MOST = 200
"""Tensors that are told."""


def locals_of(seen: Autopsy, results: bool = False) -> list[dict[str, Any]]:
    """With ``results`` those that an operation has made are told wherever the search has found them."""
    out: list[dict[str, Any]] = []
    for ident, paths in seen.census.tensor_paths.items():
        tensor = seen.census.tensors[ident]
        _, path = min(paths, key=lambda p: len(p[1]))
        node = grad_fn_of(tensor)
        # A forward can put a result where a module keeps a buffer: it goes by that name and is none.
        if (len(path) > 4 or ident in seen.census.parameter_names) and not (results and node is not None):
            continue
        made: list[Frame] = frames_of(seen.raw_stack(node), seen.cwd) if node is not None else []
        holder = seen.census.holders(ident, True, seen.cwd)[0]
        out.append(
            {
                "path": holder.path,
                "function": holder.function,
                "shape": shape_of(tensor),
                "type": type(tensor).__name__,
                "dtype": str(tensor.dtype),
                "requires_grad": bool(tensor.requires_grad),
                "is_leaf": is_leaf(tensor),
                "op": str(node.name()) if node is not None else "",
                "made": [vars(f) for f in made if f.user][-3:],
                "inference": bool(tensor.is_inference()),
                "grad": "none" if not is_leaf(tensor) or tensor.grad is None else "present",
            }
        )
        if len(out) >= MOST:
            break
    return out


def parameters_within(seen: Autopsy, frame: FrameType) -> dict[str, str]:
    """The parameters that a frame reaches, by how it reaches them: ``p`` in a loop is ``net.fc.weight``."""
    here = function_of(frame.f_code), frame.f_code.co_filename
    names = seen.census.parameter_names
    # Its own names are told whatever else holds them: of each tensor the search keeps a few ways alone.
    out = {local: names[id(v)] for local, v in frame.f_locals.items() if id(v) in names}
    for ident, name in names.items():
        for root, path in seen.census.tensor_paths.get(ident, ()):
            if (root.function, root.file) == here and len(out) < MOST:
                out[text_of(path)] = name
    return out


def wrapped(seen: Autopsy) -> list[list[str]]:
    """For each DistributedDataParallel the parameters that its Reducer counts, in its order: those that required
    gradients when it was made. None where it is not known which these were."""
    kind, names = seen.torch.nn.parallel.DistributedDataParallel, seen.census.parameter_names
    out = []
    for module, _, _ in seen.census.modules.values():
        if isinstance(module, kind):
            every = list(getattr(module, "_module_parameters", ()))
            counted = module._get_ddp_logging_data().get("num_parameter_tensors")
            same = (those for those in ([p for p in every if p.requires_grad], every) if len(those) == counted)
            out.append([names.get(id(p), "") for p in next(same, [])])
    return out
