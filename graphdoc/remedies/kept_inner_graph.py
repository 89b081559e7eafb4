"""An ``autograd.grad`` inside a forward pass frees what the outer loss still needs: its graph is kept."""

from __future__ import annotations

from graphdoc.evidence import Event, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.inner_gradient import Entered, entered
from graphdoc.program.inner_steps import is_inner_step
from graphdoc.program.spans import innermost_user, place, where


def keep_inner_graph(sources: SourceTexts, failing: Event, freeing: Event) -> tuple[Remedy, ...]:
    """Keep the graph of the inner call; where the loss is built on its result, as a graph of its own first."""
    frame = innermost_user(freeing.stack)
    if frame is None:
        return ()
    way = entered(sources, freeing, failing, None)
    step = is_inner_step(sources, freeing)
    left = failing.kind == "backward" and not freeing.create_graph and not step
    first_order = Remedy(
        "retain_graph",
        f"keep the graph in the autograd.grad call at {where(frame)}",
        "safe",
        "Its result has a graph already; the one that it was computed from then stays as well."
        if freeing.create_graph
        else "Its result stays a number for the loss (first order): gradient flows through what else the loss is made "
        "of. Nothing is stepped in between.",
        {"place": place(frame)},
        "whether the loss is to be differentiated through its result as well, no run tells" if left else "",
    )
    if freeing.create_graph or (way is not Entered.AS_TENSOR and not step):
        return (first_order,)
    second_order = Remedy(
        "set_keyword",
        f"compute the gradient at {where(frame)} with create_graph=True",
        "unsafe",
        "The result gets a graph, so the loss is differentiated through it as well (second order), and the graph stays "
        "for whatever else needs it.",
        {"place": place(frame), "name": "create_graph", "value": "True"},
        "whether the inner step is to be differentiated as well (second order), no run tells" if step else "",
    )
    return (first_order, second_order) if step else (second_order, first_order)
