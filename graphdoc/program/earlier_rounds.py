"""Whether a value without a graph was left by an earlier round of a loop, and kept since, or was made in this one."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.evidence import Cut, Frame


def left_by_an_earlier_round(loss: Sequence[Frame], cut: Cut) -> Frame | None:
    """The line at which an earlier round, or call, computed a value; None where this one may have.

    Where the function in which the loss and the cut part has the cut behind the line of the loss (of which ``loss`` is
    the stack), the loss cannot come from what that line computes in the same round.
    """
    for ours, other in zip(loss, cut.stack, strict=False):
        if (ours.file, ours.function) != (other.file, other.function):
            return None
        if ours.line != other.line:
            return other if other.user and other.line > ours.line else None
    return None
