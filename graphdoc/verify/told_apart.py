"""The result of a comparison in words, as a place in the source, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from graphdoc.model import Span
from graphdoc.story.wording import folded
from graphdoc.verify.against import Calls, Compared, Part, Parting
from graphdoc.verify.two_runs import Against


def sentences(found: Compared, other: Against) -> list[str]:
    """What was found; the first one says whether there is a difference."""
    first, second = other.first, other.second
    if found.refused:
        return [
            f"difference: {first}, the program makes steps; {second}, autograd refuses its gradients: {found.refused}",
            "`TORCH_COMPILE_DISABLE=1 graphdoc run` tells the cause of that error",
        ]
    told = []
    for lacking, having, parts in (
        (second, first, [p for p in found.parts if p.lost]),
        (first, second, [p for p in found.parts if p.gained]),
    ):
        if parts:
            told.append(f"{_names(parts)} {_verb(parts)} no gradient {lacking}, and {_verb(parts)} one {having}")
    rest = [p for p in found.parts if not p.lost and not p.gained]
    if rest:
        worst = max(rest, key=lambda p: p.apart)
        told.append(
            f"{_names(rest)} {_verb(rest)} other gradients {first} than {second}: {worst.apart:.2g} of their size "
            f"apart, where rounding explains {worst.explained:.1g}"
        )
        if found.factor:
            told[-1] += f"; each is {found.factor:.4g} times the other one, in the same direction"
    if told:
        told[0] = f"difference at step {found.step} of {found.optimizer}: {told[0]}"
    if len({calls.count for calls in found.calls}) > 1:
        told.append("; ".join(map(_calls, found.calls, (first, second))))
    if found.statistics is not None:
        _, line, *_ = found.statistics.place
        told.append(f"BatchNorm (line {line}) takes the mean of each call alone: other batches give other gradients")
    if found.untold:
        told.append(f"{'the other gradients' if told else 'the gradients'} cannot be compared: {found.untold}")
    if not told:
        steps = f"the first {found.steps} steps get" if found.steps > 1 else "the first step gets"
        how = f"up to rounding ({found.widest:.1g} apart)" if found.widest else "to the last bit"
        told.append(f"no difference: {first} and {second}, {steps} the same gradients {how}")
    return told


def _calls(calls: Calls, run: str) -> str:
    """How many calls have given the gradients, and what their losses are together."""
    many = "s" if calls.count != 1 else ""
    where = f" (line {calls.place[1]})" if calls.place[1] else ""
    told = f"{run}: {calls.count} backward() call{many}{where} before that step"
    if calls.value is None:
        return told
    return f"{told}, losses of {calls.value:.4g} together" if many else f"{told}, loss of {calls.value:.4g}"


def _names(parts: list[Part]) -> str:
    return folded(p.name for p in parts)


def _verb(parts: list[Part]) -> str:
    return "have" if len(parts) > 1 else "has"


def place(parting: Parting) -> Span | None:
    """The user's expression where two runs part; None where none is known."""
    file, line, column, end_line, end_column = parting.seen.place
    if not file:
        return None
    seen, name = parting.seen, f"`{parting.seen.name}`"
    region = bool(seen.drawn)
    where = f"the compiled {name}: " if region else f"{parting.module}: " if parting.module else ""
    at = "" if region else f" at {name}"
    label = (
        where
        + {
            "out": f"the first result{'' if region else f', of {name},'} that rounding does not explain",
            "received": f"another gradient arrives here{at}",
            "given": f"an equal gradient arrives here{at}, and another one leaves",
            "within": "what arrives here and what comes out is equal, and the gradients of what it reads are not",
        }[parting.stage]
    )
    return Span("cause", file, line, column + 1, end_line, end_column + 1, label)


def as_json(found: Compared, other: Against) -> dict[str, Any]:
    """The result for a machine."""
    span = place(found.parting) if found.parting is not None else None
    return {
        "schema_version": 1,
        "compared_with": other.name,
        "difference": None if found.untold and not found.parts else found.differs,
        "sentences": sentences(found, other),
        "steps": found.steps,
        "widest": found.widest,
        "explained": found.explained,
        "optimizer": found.optimizer,
        "step": found.step,
        "factor": found.factor,
        "parameters": [asdict(part) for part in found.parts],
        "place": span.to_json() if span is not None else None,
    }
