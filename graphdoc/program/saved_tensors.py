"""What a tensor is to the program that was saved for backward and written since."""

from __future__ import annotations

from enum import Enum

from graphdoc.evidence import Stale


class Saved(Enum):
    """What the tensor is that was saved for backward and written since."""

    PARAMETER = "a leaf that is trained"
    BUFFER = "a buffer of a module"
    DATA = "a tensor without a graph of its own"
    RESULT = "a result of the forward pass"


def saved_as(stale: Stale) -> Saved:
    """What the stale tensor is to the program."""
    tensor = stale.tensor
    if tensor.kind == "parameter" or (tensor.kind == "leaf" and tensor.requires_grad):
        return Saved.PARAMETER
    if tensor.kind == "buffer":
        return Saved.BUFFER
    result = stale.output or stale.attribute.startswith(("_saved_result", "_saved_output"))
    # A result is saved without its own history; an argument without one is plain data.
    return Saved.RESULT if tensor.kind != "input" and (result or tensor.requires_grad) else Saved.DATA
