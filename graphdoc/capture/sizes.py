"""Sizes that a trial run records: of gradients, of graphs, of the process."""

from __future__ import annotations

import os
from typing import Any

WALK_LIMIT = 20_000
"""Nodes of a graph that are counted."""


def absolute_sum(torch: Any, tensor: Any) -> float:
    """The sum of absolute values in float64, of this rank's part where a tensor is distributed; 0 for None."""
    if tensor is None or not tensor.numel():
        return 0.0
    with torch.no_grad():
        value = tensor.detach()
        if value.layout != torch.strided:
            value = value.coalesce().values() if value.layout == torch.sparse_coo else value.to_dense()
        if hasattr(value, "to_local"):
            value = value.to_local()
        return float(value.abs().sum(dtype=torch.float64))


def graph_behind(roots: list[Any]) -> tuple[int, list[Any]]:
    """How many nodes lie behind these (at most ``WALK_LIMIT``), and the leaf tensors among them."""
    seen: set[Any] = set()
    leaves: list[Any] = []
    todo = [r for r in roots if r is not None]
    while todo and len(seen) < WALK_LIMIT:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        following = node.next_functions
        if not following:
            variable = getattr(node, "variable", None)
            if variable is not None:
                leaves.append(variable)
            continue
        todo.extend(n for n, _ in following if n is not None)
    return len(seen), leaves


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
