"""Telling a copy of parameters that has kept its graph: the distance from it sends them no gradient."""

from __future__ import annotations

from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.spans import distinct, innermost_user, place, short_code, span, span_of
from graphdoc.program.value_reads import bound_names
from graphdoc.story.wording import folded


def kept_reference(sources: SourceTexts, sign: Sign) -> Finding | None:
    """The finding for an ``own-copy`` sign; None where no line of the user's made the copy."""
    frame = innermost_user(sign.stack)
    if frame is None:
        return None
    whose = folded(sign.parameters) or "the parameters"
    names = bound_names(sources, frame)
    kept = f"`{names[0]}`" if len(names) == 1 else "a copy"
    code = short_code(sources, frame)
    calls = [Frame(**f) for f in sign.facts.get("backward", ())]
    return Finding(
        0.95,
        "likely",  # that the derivatives cancel is seen; that they were not meant to is not
        f"{kept} is not detached: the distance to it gives {whose} no gradient",
        "The copy was made before a step and still has its graph. The gradient through the parameter and the one "
        "through its copy cancel, so this part of the loss trains nothing.",
        distinct(
            (
                span("cause", frame, "copies the values together with their graph", sources),
                *span_of("created", sign.other, "both sides lead to the same parameters: 1 - 1 = 0", sources),
                *(span("consumed", f, "the gradients of the two sides cancel here", sources) for f in calls),
            )
        ),
        remedies=(
            Remedy(
                "detach_expression",
                f"detach {f'`{code}`' if code else 'the copy'}",
                "unsafe",
                f"the copy is a constant, and the distance from it moves {whose}",
                {"place": place(frame)},
            ),
        ),
        because="one side of the difference is a copy from before the latest step, the other one is from behind it; "
        f"nothing but copies and views lies between both and {whose}",
    )
