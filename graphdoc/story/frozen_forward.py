"""Telling of a forward whose parameters were all frozen: of the whole loss, or of what was seen to go into it."""

from __future__ import annotations

from graphdoc.evidence import Parameter

FORWARD = (
    "The forward used parameters, recording was on, and none of these parameters had `requires_grad=True` at that "
    "time. "
    "So no operation was recorded and the loss has no graph."
)

_ALONE = (
    "Of what was seen to go into this loss, the last operations used frozen parameters alone, so that none of them was "
    "recorded. Other parameters require gradients: what they have computed went into this loss without a graph, or not "
    "at all."
)


def frozen_forward(parameters: list[Parameter]) -> tuple[str, bool]:
    """What is said of it, and whether no parameter that an optimizer holds requires gradients: then nothing else can
    have gone into the loss."""
    others = any(p.requires_grad and p.owners and not p.buffer for p in parameters)
    return (_ALONE if others else FORWARD), not others
