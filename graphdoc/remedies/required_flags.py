"""Letting what is to learn require gradients, where it is made."""

from __future__ import annotations

from typing import Any

from graphdoc.evidence import SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.meant_to_learn import Learner, takes_the_flag
from graphdoc.program.spans import place
from graphdoc.remedies.in_place_write import together
from graphdoc.story.forgotten_flag import named


def required(sources: SourceTexts, learners: list[Learner]) -> tuple[Remedy, ...]:
    """The flag where each is made, in its own call where that takes one."""
    edits: list[dict[str, Any]] = []
    for one in learners:
        if one.value is not None and takes_the_flag(sources, one):
            args: dict[str, Any] = {"place": place(one.value), "name": "requires_grad", "value": "True"}
            edits.append({"kind": "set_keyword", "args": args})
        elif one.value is not None:
            edits.append({"kind": "require_input_grad", "args": {"place": place(one.value)}})
        else:
            edits.append({"kind": "require_input_grad", "args": {"place": place(one.frame), "name": one.name}})
    note = "Autograd then records what is computed from it; no number of the forward pass changes."
    return tuple(together(edits, f"Let {named(learners)} require gradients", "unsafe", note))
