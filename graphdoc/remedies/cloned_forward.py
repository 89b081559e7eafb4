"""A forward on clones of the parameters, which later writes do not touch: its graph keeps the values it ran with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from graphdoc.evidence import Frame, Node, SourceTexts, Stale
from graphdoc.evidence.lookup import node_with
from graphdoc.finding import Remedy
from graphdoc.program.in_place_writes import operands_named
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.program.stack_levels import depth, shared_levels
from graphdoc.program.update_function import scene


def clone_forward(program: Program, found: Overwrite) -> list[Remedy]:
    """Give each stale forward clones of the parameters, which later writes do not touch."""
    edits: list[dict[str, Any]] = []
    shown: list[str] = []
    write = found.writers[0] if found.writers else None
    at = scene(program, found)
    # A module of two names would keep the clone: PyTorch replaces it twice, and gives back what it found last.
    untied = {"untied": True} if any(p.several_names for p in program.parameters) else {}
    for stale in found.stales:
        node = program.node(stale.node)
        above = 0
        if node is not None and write is not None and found.failing is not None:
            above = depth(node.stack, write.stack, found.failing.stack)
            if at is not None and at.order == "within":
                # The write would go into the clones as well, if the call that does both ran on them.
                above = max(above, shared_levels(node.stack, write.stack))
        edit, frame = _clone_edit(program.sources, program.nodes, stale, above, untied)
        if edit is not None and edit not in edits:
            edits.append(edit)
            shown.append(where(frame))
    if not edits:
        return []
    kind, args = ("several", {"edits": edits}) if len(edits) > 1 else (edits[0]["kind"], edits[0]["args"])
    return [
        Remedy(
            kind,
            f"run the forward at {', '.join(dict.fromkeys(shown[:3]))} on clones of the parameters",
            "unsafe",
            "The gradient is that of the weights with which the forward ran, and flows through the clones into the "
            "parameters and everything below. It costs a copy of them.",
            args,
        )
    ]


def _clone_edit(
    sources: SourceTexts, nodes: list[Node], stale: Stale, above: int, untied: dict[str, Any]
) -> tuple[dict[str, Any] | None, Frame | None]:
    """The outermost module call below the function in which the steps are made; else the parameter at its use."""
    node = node_with(nodes, stale.node)
    stack = node.stack if node is not None else []
    users = 0
    of_module = "." in stale.tensor.name  # a tensor by itself is no module's to be exchanged
    for frame, inner in pairwise(stack if of_module else ()):
        users += frame.user
        if frame.user and users > above and not inner.user and "_call_impl" in inner.function:
            return {"kind": "clone_parameters", "args": {"place": place(frame), **untied}}, frame
    frame_ = innermost_user(stack)
    names = operands_named(sources, frame_, stale.tensor.name)
    if frame_ is None or not names:
        return None, None
    return {"kind": "clone_expression", "args": {"place": place(frame_), "operands": names}}, frame_
