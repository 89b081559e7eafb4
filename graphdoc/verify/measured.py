"""What a patched program's losses do when parameters move, beside what its steps are given (docs/gradients.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from graphdoc.evidence import GRADIENTS, Evidence
from graphdoc.story.wording import folded, listing, optimizer_of
from graphdoc.verify.verdict_words import receive

NO_STEPS = "no optimizer made the steps that were to be looked at"


@dataclass
class Measured:
    """``wrong`` speaks against the patch, ``agrees`` for it, each the end of a sentence; ``steps`` are those at which a
    gradient was that of the loss, ``why`` says why nothing was measured."""

    wrong: list[str] = field(default_factory=list)
    agrees: str = ""
    steps: list[str] = field(default_factory=list)
    why: str = ""


def measured(evidence: Evidence, spared: frozenset[str]) -> Measured:
    """From the evidence of a patched run. ``spared`` are parameters that the patch is to take gradient from."""
    told = Measured()
    steps: dict[str, list[int]] = {}
    for sign in (s for s in evidence.signs if s.kind == GRADIENTS):
        told.why = told.why or str(sign.facts.get("why", ""))
        for look in sign.facts.get("looks", ()):
            told.why = told.why or look["why"]
            told.wrong += _wrong(look, spared)
            if any(a["answer"] == "agrees" for a in look["answers"]):
                steps.setdefault(optimizer_of(evidence.optimizers, sign), []).append(look["step"])
    told.wrong = list(dict.fromkeys(told.wrong))
    told.steps = [f"step {listing([str(n) for n in sorted(set(ns))])} of {whose}" for whose, ns in steps.items()]
    if told.steps and not told.wrong:
        told.agrees = "its gradients were measured to be those of its losses"
    if not told.steps:
        told.why = told.why or NO_STEPS
    return told


def _wrong(look: dict[str, Any], spared: frozenset[str]) -> Iterable[str]:
    for answer in look["answers"]:
        kind, slope, given, taken = answer["answer"], answer["slope"], answer["gradient"], answer["taken"]
        whose, loss = folded(answer["parameters"]), f"the loss at {answer['file']}:{answer['line']}"
        if spared.issuperset(answer["parameters"]):
            continue
        if kind == "another" and slope == 0.0 and not look["own"]:
            yield f"{loss} does not move with {whose}, which {receive(answer['parameters'])} a gradient of older values"
        elif kind == "another" and not look["own"] and not look["within"]:
            yield f"{loss} has the slope {slope:.3g} along the gradient of {whose}, and {given:.3g} by that gradient"
        elif taken:
            yield f"its cut makes the slope of {loss} along the gradient of {whose} {given:.3g}, which is {taken:.3g}"
        elif (kind == "missing" and look.get("cut_by_patch")) or (kind == "zero" and look.get("ends_in_patch")):
            none = "no gradient" if kind == "missing" else "zeros alone"
            yield f"{loss} depends on {whose}, which {receive(answer['parameters'])} {none} by its change"
