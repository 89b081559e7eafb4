"""What a backward call was called with: the graph nodes that it starts from, and which of their outputs."""

from __future__ import annotations

from typing import Any

from torch.autograd.graph import GradientEdge

from graphdoc.capture.tensors.facts import grad_fn_of


def root_of(output: Any) -> Any:
    """The graph node of what backward was called with: a tensor, or an edge of ``torch.autograd.graph``."""
    return output.node if isinstance(output, GradientEdge) else grad_fn_of(output)


def other_roots(outputs: Any) -> tuple[int, ...]:
    """All roots but the first: the sequence number of each node and which of its outputs, one after the other."""
    found: list[int] = []
    for output in outputs[1:]:
        node = root_of(output)
        found += (node._sequence_nr(), output.output_nr) if node is not None else (-1, -1)
    return tuple(found)


def roots_of_call(outputs: Any) -> list[Any]:
    """The graph nodes of all that backward was called with."""
    return [root_of(output) for output in outputs]


def tensor_roots(outputs: Any) -> list[Any]:
    """The graph nodes of the tensors among them."""
    return [grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")]
