"""What is told of an input that the graph of an output does not lead to."""

from __future__ import annotations

from dataclasses import dataclass

from graphdoc.evidence import Cut, Frame, SourceTexts
from graphdoc.model import Role, Span
from graphdoc.program.asked_inputs import OfAnother
from graphdoc.program.spans import innermost_user, span, where
from graphdoc.program.unreached_input import Beside, FlaggedLate, Reason, TakenOut
from graphdoc.story.wording import folded


@dataclass(frozen=True)
class Told:
    """The places, the sentence of the explanation, and the one of evidence."""

    marks: tuple[Span, ...]
    why: str
    because: str


def told_of(sources: SourceTexts, name: str, reason: Reason) -> Told:
    """``name`` is the input as the program calls it, or ``this input``."""
    match reason:
        case Beside(made):
            label = f"{name} is a new tensor, made of what the output depends on"
            return Told(
                (span("cause", made, label, sources),),
                f"At {where(made)} it is computed from a tensor that the output depends on. The output was computed "
                "from that tensor, not from this one. Ask for the gradient of that tensor and take the same part of "
                "it; or compute the output from this one.",
                f"the output was computed from what {name} is made of, and not from {name}",
            )
        case TakenOut(cut, place) if cut.reason == "no-grad":
            return _unrecorded(sources, name, cut, place)
        case TakenOut(cut, place):
            return Told(
                (span("cause", place, f"`{cut.op}` takes the values of {name} out of the graph", sources),),
                f"At {where(place)} `{cut.op}` takes its values out of the graph, and the output is computed from "
                "these: for autograd they are constants.",
                f"the output was computed from what `{cut.op}` gave at {where(place)}",
            )
        case FlaggedLate(flagged, taken):
            return Told(
                (
                    span("cause", flagged, f"{name} requires gradients from here on", sources),
                    span("related", taken, f"{name} goes into the output here, and requires none yet", sources),
                ),
                f"It went into the output at {where(taken)}, and was let require gradients at {where(flagged)}, after "
                "that. What is computed from a tensor has an edge to it only if it required gradients then.",
                "the flag was set after the tensor had gone into the output",
            )


def _unrecorded(sources: SourceTexts, name: str, cut: Cut, place: Frame) -> Told:
    """The input goes into an operation while gradient recording is off."""
    switch, kind = innermost_user(cut.switch), cut.switch_kind or "no_grad"
    off = f"Gradient recording is switched off at {where(switch)} ({kind}). " if switch is not None else ""
    marks = (span("cause", switch, "gradient recording is switched off here", sources),) if switch is not None else ()
    role: Role = "related" if marks else "cause"
    return Told(
        (*marks, span(role, place, f"`{cut.op}` takes {name} in here, and is not recorded", sources)),
        f"{off}`{cut.op}` at {where(place)} takes it in while nothing is recorded, and the output is computed from "
        "what that gives: for autograd it is a constant.",
        f"the output was computed from what `{cut.op}` gave at {where(place)}, under {kind}",
    )


def of_another(sources: SourceTexts, another: OfAnother) -> tuple[tuple[Span, ...], str]:
    """One list of inputs for two outputs, of which this input is in one."""
    also = f"The output depends on {folded(another.reached)}, "
    place = innermost_user(another.other.stack)
    marks = (span("related", place, f"this output depends on `{another.name}`", sources),) if place else ()
    return marks, (
        f"{also}asked for in the same call. `{another.name}` is a part of another output, differentiated at "
        f"{where(place)}: if this output is not to depend on it, its derivative here is zero."
    )


def of_unread(sources: SourceTexts, part: str, built: Frame) -> tuple[tuple[Span, ...], str]:
    """A part of the model that is built, and that nothing reads."""
    return (
        (span("cause", built, f"nothing in the program reads `{part}` after this", sources),),
        f"`{part}` is built at {where(built)} and takes no part in anything: use it, or leave it out.",
    )
