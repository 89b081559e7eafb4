"""The stack that is kept with a node: put there, found again, hidden from what PyTorch prints."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Any

from graphdoc.capture.stacks import Stack, nowhere, stack_here


def keep_in(node: Any) -> None:
    """For ``torch.autograd.graph.node_creation_hook``: keep the stack where anomaly mode would have kept it."""
    node.metadata["traceback_"] = stack_here(2)


_HIDDEN = "graphdoc_stack"
_FUNCTIONS = "torch.autograd.function"


def hide_in(node: Any) -> None:
    """Keep a node's stack where PyTorch does not print it."""
    metadata = node.metadata
    kept = metadata.pop("traceback_", None)
    if kept is not None:
        metadata[_HIDDEN] = kept
        metadata.pop("parent_", None)


def made_in_backward(stack: Stack, engine: CodeType | None) -> bool:
    """Whether a node with this stack was made while a backward call ran, through ``engine`` or in a thread of its own.

    In such a thread (of another device) no Python function runs, or that of a custom Function is the outermost.
    """
    raw = stack.raw
    outermost = raw[-2].co_filename
    return raw[0] is nowhere.__code__ or engine in raw[::2] or outermost == sys.modules[_FUNCTIONS].__file__


def disown(stack: Stack) -> None:
    """Let the nodes that have this stack forget in which other node's backward they were made.

    PyTorch keeps that under anomaly mode, prints it after the stack, and up to 2.13 never gives back the references
    that it takes to the nodes named (PyDict_GetItemStringRef in python_anomaly_mode.cpp): a graph whose backward fails,
    or is broken off as nested checkpoints are at every step, would never be freed. Called while the stack is printed.
    """
    for metadata in _metadata_with(stack):
        metadata.pop("parent_", None)


def _metadata_with(stack: Stack) -> list[dict[Any, Any]]:
    """Found by way of the garbage collector; as a rule among the few objects that it has not seen often yet."""

    def those(objects: Iterable[Any]) -> list[dict[Any, Any]]:
        return [o for o in objects if type(o) is dict and o.get("traceback_") is stack]

    return those(gc.get_objects(0)) or those(gc.get_objects(1)) or those(gc.get_referrers(stack))


def is_known(kept: Any) -> bool:
    """Whether what was kept for a node tells where it was made. Of a ``Stack`` that is not asked by its length, for
    which it is made into text."""
    return isinstance(kept, Stack) or (isinstance(kept, list) and bool(kept))


def kept_in(node: Any) -> Any:
    """What was kept for this node: a ``Stack``, or where that was not possible the lines of anomaly mode's own text."""
    kept = node.metadata.get("traceback_")
    return node.metadata.get(_HIDDEN) if kept is None else kept


def stack_of(node: Any) -> Stack | None:
    """Where this node was made; None where that was not kept, or as anomaly mode's text alone."""
    kept = kept_in(node)
    return kept if isinstance(kept, Stack) else None
