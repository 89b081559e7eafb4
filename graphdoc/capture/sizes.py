"""Sizes that a trial run records: of gradients, of graphs, of the process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Any

from graphdoc.capture.number_facts import has_memory, numbers_of
from graphdoc.capture.walk import VIEWS

WALK_LIMIT = 20_000
"""Nodes of a graph that are counted."""
MOST_CLONED = 20_000_000
"""Elements of gradients that are copied to tell what one call has added; beyond it only the sums are compared."""
SAMPLED = 4096
"""Elements of a gradient that are looked at for what its size does not tell."""
_PRIMES = (40503, 48271, 69621, 16807)
"""One pattern of signs of each."""
_WALKED = "graphdoc_walked"


def absolute_sum(torch: Any, tensor: Any) -> float:
    """The sum of absolute values in float64, of this rank's part where a tensor is distributed; 0 for None."""
    if tensor is None or not tensor.numel():
        return 0.0
    with torch.no_grad():
        value = tensor.detach()
        if value.layout != torch.strided:
            value = value.coalesce().values() if value.layout == torch.sparse_coo else value.to_dense()
        value = numbers_of(value)
        return 0.0 if value is None else float(value.abs().sum(dtype=torch.float64))


def measured(torch: Any, tensor: Any) -> list[float]:
    """What stands for a gradient in a trace: the sum of absolute values; then, of at most ``SAMPLED`` of its elements,
    the sums under four fixed patterns of signs, and the norm. Two tensors of one size, of which the one is the
    other turned round, have the same first sum; those under the signs lie as far apart as the tensors do (Johnson and
    Lindenstrauss, 1984).
    """
    total = absolute_sum(torch, tensor)
    if tensor is None or not tensor.numel() or not has_memory(tensor):
        return [total]
    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        flat = flat[:: -(-flat.numel() // SAMPLED)]
        if flat.is_complex():
            flat = torch.view_as_real(flat).reshape(-1)
        flat = flat.to("cpu", torch.float64)
        turned = _signs(torch)[:, : flat.numel()] @ flat
        return [total, *turned.tolist(), float(flat.norm())]


def measured_each(torch: Any, optimizer: Any, known: dict[int, tuple[str, Any]]) -> dict[str, Any]:
    """The gradients that an optimizer's parameters have now, measured, by the key of each that is ``known`` by id."""
    held = [p for group in optimizer.param_groups for p in group["params"] if id(p) in known]
    return {known[id(p)][0]: measured(torch, p.grad) for p in held if p.grad is not None}


@cache
def _signs(torch: Any) -> Any:
    """Patterns of signs, the same in every run and without a random number: the parity of bits of a product."""
    number = torch.arange(1, 2 * SAMPLED + 1, dtype=torch.int64)
    rows = [((number * prime) >> 7) ^ ((number * prime) >> 13) for prime in _PRIMES]
    return torch.stack([(row & 1) * 2 - 1 for row in rows]).to(torch.float64)


def gradients_now(torch: Any, leaves: Iterable[tuple[str, Any]]) -> dict[str, tuple[Any, Any, float]]:
    """Each leaf by its key, with a copy of its gradient, as far as that can be had, and the sum of it."""
    size = 0
    found: dict[str, tuple[Any, Any, float]] = {}
    for key, p in leaves:
        size += p.numel() if p.grad is not None else 0
        kept = p.grad is not None and numbers_of(p.grad) is not None and size <= MOST_CLONED
        found[key] = (p, p.grad.clone() if kept else None, absolute_sum(torch, p.grad))
    return found


def gained_since(torch: Any, p: Any, old: Any, old_sum: float) -> list[float]:
    """What stands for the gradient that a leaf has got since ``gradients_now`` (see ``measured``); where no copy was
    kept of what it had, only how much larger the sum is."""
    if p.grad is None:
        return [0.0]
    gain = measured(torch, p.grad - old if old is not None and old.shape == p.grad.shape else p.grad)
    return [abs(gain[0] - old_sum)] if old is None and old_sum else gain


class Walked:
    """Stands for the calls from one line in the nodes that they have walked; ``call`` is the last of them."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.place = place
        self.call = -1


def graph_behind(roots: list[Any], walked: Walked) -> tuple[int, list[Any], list[Any], set[Walked], dict[int, int]]:
    """How many nodes lie behind these (at most ``WALK_LIMIT``), the leaf tensors among them, those of the leaves
    that lie behind a node which bears ``walked`` already, what the nodes bore, and by the id of each leaf the number of
    the oldest node that has read its values; now all of them bear ``walked``.
    A number would not do for a mark: each thread's nodes begin at 0.
    """
    seen: set[Any] = set()
    leaves: list[Any] = []
    oldest: dict[Any, int] = {}
    views: list[Any] = []
    again: dict[int, Any] = {}
    borne: set[Walked] = set()
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
        children = [n for n, _ in following if n is not None]
        todo.extend(children)
        if node.name() in VIEWS:
            views.append(node)
        else:
            _taken(oldest, children, node._sequence_nr())
        marks = node.metadata.setdefault(_WALKED, set())
        borne |= marks
        if walked in marks:
            for variable in (getattr(n, "variable", None) for n in children if not n.next_functions):
                if variable is not None:
                    again[id(variable)] = variable
        marks.add(walked)
    for view in sorted(views, key=lambda n: int(n._sequence_nr()), reverse=True):
        if view in oldest:  # what reads the view reads what the tensor holds by then
            _taken(oldest, [n for n, _ in view.next_functions if n is not None], oldest[view])
    read = {id(v): number for n, number in oldest.items() if (v := getattr(n, "variable", None)) is not None}
    return len(seen), leaves, list(again.values()), borne, read


def _taken(oldest: dict[Any, int], nodes: list[Any], number: int) -> None:
    for node in nodes:
        oldest[node] = min(oldest.get(node, number), number)


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
