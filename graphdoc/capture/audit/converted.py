"""Attributes of a module that are results of an operation on a ``Parameter``, which nothing else has any more."""

from __future__ import annotations

import gc
from typing import Any

from graphdoc.capture import node_stacks, stacks
from graphdoc.capture.audit.hidden import is_given
from graphdoc.capture.code_places import is_users
from graphdoc.capture.facts import grad_fn_of
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Sign

DEEPEST = 4
"""Operations between the parameter and what is kept of it: ``Parameter(x).to(device) * 0.1`` has two."""


def converted(torch: Any, unheld: dict[int, Any], held: set[int], cwd: str) -> tuple[Any, Sign] | None:
    """``kept-result`` and the parameter: ``stack`` is where the attribute was computed, ``facts`` have its name
    (``attribute``) and the ``class`` of the module; an optimizer holds other parameters of that module.

    Args:
        unheld: parameters that get gradients, are in no optimizer and belong to no module, by id.
        held: ids of those that are in an optimizer.
    """
    module = torch.nn.Module
    for owner in gc.get_objects():
        if module not in type(owner).__mro__ or not is_users(owner):
            continue
        for name, value in list(owner.__dict__.items()):
            node = grad_fn_of(value) if type(value) is torch.Tensor else None
            leaf = _leaf_behind(node)
            if leaf is None or id(leaf) not in unheld or not is_given(owner, held, module):
                continue
            kept = node_stacks.kept_in(node)
            raw: Any = kept if isinstance(kept, stacks.Stack) else []
            sign = Sign("kept-result", frames_of(raw, cwd))
            sign.facts = {"class": type(owner).__qualname__, "attribute": name}
            return leaf, sign
    return None


def _leaf_behind(node: Any) -> Any:
    """The one leaf that a result was computed from, in a few operations that took nothing else with a graph."""
    for _ in range(DEEPEST):
        if node is None:
            return None
        following = [n for n, _ in node.next_functions if n is not None]
        if len(following) != 1:
            return None
        node = following[0]
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            return leaf
    return None
