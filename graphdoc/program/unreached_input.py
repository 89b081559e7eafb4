"""Why the graph of an output does not lead to an input whose gradient was asked for, as far as the run has shown it."""

from __future__ import annotations

from dataclasses import dataclass

from graphdoc.evidence import Cut, Frame
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user
from graphdoc.program.tensors import frames


@dataclass(frozen=True)
class Beside:
    """The input was made, at ``made``, of what the output depends on, and the output was not computed from it."""

    made: Frame


@dataclass(frozen=True)
class TakenOut:
    """``cut`` took the input's values out of the graph, and the output was computed from these."""

    cut: Cut
    place: Frame


@dataclass(frozen=True)
class FlaggedLate:
    """The input went into the output at ``taken``, and was let require gradients at ``flagged``, after that."""

    flagged: Frame
    taken: Frame


Reason = Beside | TakenOut | FlaggedLate


def unreached_input(program: Program) -> Reason | None:
    """What the graph and, where one was made, the second run show; None where they show no reason."""
    seen = program.evidence.extras.get("unreached")
    if not isinstance(seen, dict):
        return None
    flagged, taken = innermost_user(frames(seen.get("flagged"))), innermost_user(frames(seen.get("taken")))
    if flagged is not None and taken is not None:
        return FlaggedLate(flagged, taken)
    for cut in program.cuts:
        place = innermost_user(cut.stack)
        if place is not None and cut.reason != "missing-create-graph":
            return TakenOut(cut, place)
    made = innermost_user(frames(seen.get("stack")))
    return Beside(made) if seen.get("shares") and made is not None else None
