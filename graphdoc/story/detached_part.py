"""Telling parameters that a straight-through sum leaves without gradient: only its detached part is made of them."""

from __future__ import annotations

import ast

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding
from graphdoc.program.spans import code_at, distinct, innermost_user, span_of
from graphdoc.source.operands import parsed
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded


def bypassed(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for a ``bypassed`` sign; None where the parameters have no name."""
    whose = folded(sign.parameters)
    if not whose:
        return None
    node = parsed(code_at(sources, innermost_user(sign.stack)))
    detached = next(
        (
            n.value.left
            for n in ast.walk(node or ast.Module([], []))
            if isinstance(n, ast.Attribute) and n.attr in ("detach", "data") and isinstance(n.value, ast.BinOp)
        ),
        None,
    )
    value = f"`{ast.unparse(detached)}`" if detached is not None else "what is detached here"
    return Finding(
        0.9,
        "likely",
        f"no gradient reaches {whose}: only its detached value is in the loss",
        f"The sum has the value of {value} and passes the gradient to the other side. A loss that is computed from the "
        f"sum trains nothing that {value} was made of: such a term has to be computed from {value} itself.",
        distinct(
            (
                *span_of("cause", sign.stack, f"the gradient goes around {value}, and so around {whose}", sources),
                *span_of("related", sign.other, f"reaches the other parameters of this loss, not {whose}", sources),
            )
        ),
        because=f"{optimizer_of(optimizers, sign)} holds {whose}; no backward call has reached it, "
        "and nothing else has changed its values",
    )
