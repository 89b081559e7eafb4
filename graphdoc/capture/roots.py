"""What a backward call was called with: the graph nodes that it starts from, and which of their outputs."""

from __future__ import annotations

from typing import Any

from torch.autograd.graph import GradientEdge

from graphdoc.capture.facts import grad_fn_of


def root_of(output: Any) -> Any:
    """The graph node of what backward was called with: a tensor, or an edge of ``torch.autograd.graph``."""
    return output.node if isinstance(output, GradientEdge) else grad_fn_of(output)


def output_number(output: Any) -> int:
    """Which output of its node it is: ``unbind``, or a Function that returns a tuple, has several."""
    return int(output.output_nr)


def roots_of_call(outputs: Any) -> list[Any]:
    """The graph nodes of all that backward was called with."""
    return [root_of(output) for output in outputs]
