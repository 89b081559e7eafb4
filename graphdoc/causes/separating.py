"""The ways to part from an older graph, best first, for each kind of reuse."""

from __future__ import annotations

from graphdoc.causes.base import Remedy
from graphdoc.causes.carrying import copy_of_entry, detach_behind_step, detach_where_kept, no_grad_over_maker, stored
from graphdoc.causes.constants import constant_at_use, in_earlier_loss
from graphdoc.causes.oldgraph import cached_with, listed
from graphdoc.causes.recomputing import compute_again, merge, repeated, start_anew, unique
from graphdoc.causes.reuse import Reuse
from graphdoc.causes.spans import place, where
from graphdoc.evidence import Evidence


def remedies_for(evidence: Evidence, reuse: Reuse) -> tuple[Remedy, ...]:
    """All ways to part that make sense for this kind of reuse, best first; the trial run decides between them."""
    kind = reuse.kind
    constant = (
        "It becomes a constant for this loss: "
        + (f"{listed(reuse.behind, 2)} get no gradient from it" if reuse.behind else "nothing behind it gets gradient")
        + ", and keep what their own loss gives them."
    )
    out: list[Remedy] = []
    if kind == "carried-state":
        out = [
            *copy_of_entry(evidence, reuse),
            *detach_behind_step(evidence, reuse),
            *detach_where_kept(evidence, reuse),
            *constant_at_use(evidence, reuse.carries, constant),
        ]
    elif kind == "stored-with-graph":
        out = [
            *stored(evidence, reuse),
            *detach_where_kept(evidence, reuse),
            *no_grad_over_maker(evidence, reuse),
            *constant_at_use(evidence, reuse.carries, constant),
            *detach_behind_step(evidence, reuse),
        ]
    elif kind == "undetached-target":
        if reuse.detach_in_freeing:
            out = constant_at_use(evidence, evidence.siblings, constant) or in_earlier_loss(evidence, reuse, constant)
        else:
            out = constant_at_use(evidence, reuse.carries, constant)
    elif kind == "shared-subgraph-losses":
        out = [*merge(evidence, reuse), *compute_again(evidence, reuse)]
    elif kind == "graph-built-once":
        ways = compute_again(evidence, reuse)
        cuts = constant_at_use(evidence, reuse.carries, constant)
        out = [*ways, *cuts] if reuse.own or not reuse.meant_known else [*cuts, *ways]
        context = cached_with(evidence, reuse)
        if context is not None:
            out.insert(
                0,
                Remedy(
                    "remove_context",
                    f"leave out the cache at {where(context)}",
                    "safe",
                    "Each pass computes its matrices from the current parameters.",
                    {"place": place(context), "name": "cached"},
                ),
            )
    elif kind == "accumulated-loss":
        out = start_anew(evidence, reuse)
    elif kind == "repeated-backward":
        out = list(repeated(evidence, reuse))
    return tuple(unique(out)[:10])
