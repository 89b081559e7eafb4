"""Whom a cut leaves without gradient: what a loss reaches through its older part alone."""

from __future__ import annotations

from graphdoc.program.reuse import Reuse
from graphdoc.story.wording import folded


def lost(fresh_reaches: list[str], reuse: Reuse) -> set[str]:
    """The parameters that this loss is meant to train and reaches through the old graph alone, and to which no other
    loss of the same step sends gradient; without those that are frozen and have never had any."""
    return reuse.own - set(fresh_reaches) - reuse.reached_beside - reuse.never_trained


def through_it_alone(fresh_reaches: list[str], reuse: Reuse) -> bool:
    """Whether the loss reaches nothing of what it is to train but through its older part: cut off, it trains nobody."""
    return bool(reuse.own) and reuse.own >= reuse.meant and not reuse.meant & set(fresh_reaches)


def stops_there(fresh_reaches: list[str], reuse: Reuse, which: str = "", unit: str = "iteration") -> str:
    """The effect of a cut between two iterations on those that are trained, as far as the graph of the loss tells."""
    text = f"The values are carried into the next {unit}, gradients are not{which}"
    missing = lost(fresh_reaches, reuse)
    # Where this pass has made its own anew, they may well learn through that: its use is not told apart from the old's.
    anew = any(c.remade or c.recurrent for c in reuse.carries)
    if missing and not anew:
        return f"{text}: {folded(missing, 2)} {'gets' if len(missing) == 1 else 'get'} none through anything else."
    if reuse.own - set(fresh_reaches) or not reuse.meant_known:
        return f"{text}."
    return f"{text}; what this loss trains still gets its gradient from the current {unit}."
