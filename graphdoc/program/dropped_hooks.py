"""The module of FSDP2 whose parameters were not gathered in backward, and the write that dropped the hook for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, Node
from graphdoc.evidence.lookup import node_with
from graphdoc.program.spans import innermost_user
from graphdoc.program.tensors import frames


@dataclass(frozen=True)
class DroppedHook:
    """``module``: its name in the model, or its class. ``called`` calls it, ``write`` writes into what it returned."""

    module: str
    called: Frame | None
    write: Node


def dropped_hook(extras: dict[str, Any], nodes: list[Node]) -> DroppedHook | None:
    """The first write into what the module had returned; None where its hook ran, or nothing was written."""
    told = extras.get("resharded")
    writes = told.get("writes") if isinstance(told, dict) and not told.get("gathered", True) else None
    first = writes[0] if isinstance(writes, list) and writes and isinstance(writes[0], dict) else None
    node = node_with(nodes, first.get("node", -1)) if first is not None else None
    if first is None or node is None or innermost_user(node.stack) is None or not isinstance(told, dict):
        return None
    classes = told.get("classes")
    name = str(told.get("module") or (classes[0] if isinstance(classes, list) and classes else "a module"))
    return DroppedHook(name, innermost_user(frames(first.get("called"))), node)
