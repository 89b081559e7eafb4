"""Whether the writes that were seen account for the whole way from the version that was saved to the one found."""

from __future__ import annotations

from graphdoc.evidence import Stale

_UNEVEN = ("LBFGS.step",)
"""Steps that write as often as it takes to find the place (torch/optim/lbfgs.py), not equally often each time."""


def accounted(stale: Stale) -> bool:
    """Whether the known writes are proven to be all of them: each was seen, and together they make up the gap."""
    return bool(stale.writes) and all(w.certain and w.moved >= 0 for w in stale.writes) and _missing(stale) == 0


def plausible(stale: Stale) -> bool:
    """Whether the known writes can be all of them.

    An optimizer of which it is not known how often one step writes does so equally often in each.
    """
    missing = _missing(stale)
    unknown = [w for w in stale.writes if w.moved < 0]
    if any(w.op in _UNEVEN for w in unknown):
        return False
    steps = sum(w.count for w in unknown)
    return missing >= steps and missing % steps == 0 if steps else missing == 0


def _missing(stale: Stale) -> int:
    """Versions that are left when the known writes are taken away."""
    return stale.current - stale.expected - sum(w.moved * w.count for w in stale.writes if w.moved >= 0)
