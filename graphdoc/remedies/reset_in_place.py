"""A state that is reset in place, let go of its graph where it is reset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphdoc.finding import Remedy
from graphdoc.program.resets import Reset
from graphdoc.program.spans import place, where
from graphdoc.remedies.in_place_write import together


def detach_at_reset(resets: list[Reset], behind_step: list[Remedy]) -> list[Remedy]:
    """Detach in place in front of each reset; else once each iteration, behind the step."""
    edits: list[dict[str, Any]] = [
        {
            "kind": "add_statement",
            "args": {"place": place(r.frame), "statement": f"{r.path}.detach_()", "before": True},
        }
        for r in resets
    ]
    shown = ", ".join(f"`{r.path}`" for r in resets[:4])
    recorded = all(r.node is not None for r in resets)
    note = (
        "No gradient came through the reset anyway, so every gradient stays as it was meant."
        if recorded
        else "The reset gives it new numbers: no gradient belongs to how the earlier ones were computed."
    )
    title = f"detach {shown} before the reset, at {where(resets[0].frame)}"
    instead = "Gradients stop there; the values are those that the reset gives."
    return [
        *together(edits, title, "unsafe", note),
        *(replace(r, note=instead) for r in behind_step),
    ]
