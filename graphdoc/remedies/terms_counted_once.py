"""A loss that has terms which calls of their own have differentiated: one call on the loss counts each of them once."""

from __future__ import annotations

from graphdoc.finding import Remedy
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.story.wording import listing


def without_calls_on_terms(reuse: Reuse) -> tuple[Remedy, ...]:
    """Remove the calls on the terms, where they stand in the function that differentiates the whole loss."""
    call = innermost_user(reuse.failing.stack) if reuse.failing is not None else None
    calls = [f for e in reuse.earlier_calls if (f := innermost_user(e.stack)) is not None]
    if call is None or not calls or any((f.file, f.function) != (call.file, call.function) for f in calls):
        return ()
    several = "s" if len(calls) > 1 else ""
    return (
        Remedy(
            "several",
            f"remove the backward call{several} on the term{several}, at {listing([where(f) for f in calls])}",
            "unsafe",
            f"Each term counts once, by the call on the whole loss at {where(call)}.",
            {"edits": [{"kind": "delete_statement", "args": {"place": place(f)}} for f in calls]},
        ),
    )
