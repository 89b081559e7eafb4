"""A gradient of the right numbers and the wrong shape: what turns the one shape into the other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphdoc.evidence import Frame, Raised
from graphdoc.finding import Remedy
from graphdoc.program.exception import field_of
from graphdoc.program.spans import where
from graphdoc.remedies.fix_places import remedy_at

_MESSAGE = "invalid-gradient-shape"


def fitted_gradient(raised: Raised | None, returns: Sequence[Frame]) -> tuple[Remedy, ...]:
    """Give the gradient the shape that PyTorch's message asks for, where no number has to go or come for it.

    A dimension of size 1 is added or taken away; a matrix is turned where it is written as a product with a turned
    factor, whose other order gives the other shape.
    """
    got, wanted = (_sizes(field_of(raised, name, _MESSAGE)) for name in ("shape", "shape2"))
    index = field_of(raised, "index", _MESSAGE)
    if len(returns) != 1 or got is None or wanted is None or not index.isdigit():
        return ()
    steps = _ones(got, wanted)
    product = not steps and len(got) == 2 and wanted == got[::-1]
    if product:
        steps = ["t()"]
    if not steps:
        return ()
    return remedy_at(
        returns[0],
        "fit_gradient",
        f"return the gradient in the shape of its input, {list(wanted)} for {list(got)}, at {where(returns[0])}",
        "unsafe",
        "The numbers stay as they are computed; whether they are the right ones, `torch.autograd.gradcheck` can tell.",
        index=int(index),
        steps=steps,
        product=product,
    )


def _sizes(text: str) -> tuple[int, ...] | None:
    return tuple(int(n) for n in re.findall(r"\d+", text)) if text else None


def _ones(got: tuple[int, ...], wanted: tuple[int, ...]) -> list[str]:
    """The one call that adds or takes away dimensions of size 1; empty where that is not what is between the shapes."""
    for i in range(len(wanted)):
        if wanted[i] == 1 and wanted[:i] + wanted[i + 1 :] == got:
            return [f"unsqueeze({i})"]
    for i in range(len(got)):
        if got[i] == 1 and got[:i] + got[i + 1 :] == wanted:
            return [f"squeeze({i})"]
    return []
