"""What the values of an older graph are to the loss that takes them in."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """What a value is to a loss."""

    TRAINED = "the loss is to train what lies behind it"
    TARGET = "a constant: another loss trains what lies behind it"
    DATA = "a constant for every loss in sight: none of their optimizers has what lies behind it"
    REFERENCE = "a constant: compared with what the pass computes anew, through which the loss trains the same"
    UNKNOWN = "unknown"


CONSTANT = (Role.TARGET, Role.DATA)
