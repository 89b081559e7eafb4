"""``inputs=`` for a call of ``backward``: what the optimizers hold that step with its gradient, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.source.edits import set_keyword
from graphdoc.source.module import Source
from graphdoc.source.places import Edit


def refuse_weighed(call: ast.Call) -> None:
    """Refuse a call that is given a gradient of its own.

    Raises:
        CannotFix: it is, or it is no method ``backward``.
    """
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward" or call.args:
        raise CannotFix("the backward call has a gradient of its own")


def has_inputs(call: ast.Call) -> bool:
    """Whether a call is told already which parameters it is for."""
    return any(k.arg == "inputs" for k in call.keywords)


def own_inputs(source: Source, call: ast.Call, optimizers: Sequence[str], frozen: bool) -> list[Edit]:
    """Tell a call to give gradient to what these optimizers hold; where some of that is ``frozen``, to the rest: what
    requires no gradient is refused as an input (torch/autograd/__init__.py)."""
    one = len(optimizers) == 1
    groups = f"g in {optimizers[0]}.param_groups"
    several = f"o in ({', '.join(optimizers)}) for g in o.param_groups"
    asked = " if p.requires_grad" if frozen else ""
    return set_keyword(source, call, "inputs", f'[p for {groups if one else several} for p in g["params"]{asked}]')
