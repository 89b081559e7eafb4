"""The one entry of a list of the evidence that has a number or a name."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoc.evidence.graph import Node
from graphdoc.evidence.run_records import Event, Optimizer, Package


def node_with(nodes: Iterable[Node], ident: int) -> Node | None:
    """The node with this id, or None."""
    return next((n for n in nodes if n.id == ident), None)


def event_with(events: Iterable[Event], index: int) -> Event | None:
    """The journal entry with this index, or None (the journal is bounded)."""
    return next((e for e in events if e.index == index), None)


def optimizer_with(optimizers: Iterable[Optimizer], ident: int) -> Optimizer | None:
    """The optimizer with this id, or None."""
    return next((o for o in optimizers if o.id == ident), None)


def package_of(packages: Iterable[Package], file: str) -> Package | None:
    """The installed package that a file of the frames belongs to, or None: the user's, Python's, PyTorch's."""
    return next((p for p in packages if file in p.files), None)
