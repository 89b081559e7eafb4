"""What ``--check-gradients`` has measured, in words (docs/gradients.md says what they mean)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphdoc.evidence import GRADIENTS, Evidence, Sign
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded, listing

OPTION = "--check-gradients"
_PART = 0.01
"""The part of their size by which parameters are said to be moved."""
Look = dict[str, Any]
Answer = dict[str, Any]


def gradients(evidence: Evidence) -> tuple[str, ...]:
    """A line for each optimizer, and one for each difference."""
    signs = [s for s in evidence.signs if s.kind == GRADIENTS]
    if not signs:
        second = evidence.extras.get("second_run")
        return (
            f"{OPTION}: nothing was measured: {second or 'no optimizer has stepped in a run that could be looked at'}",
        )
    out: list[str] = []
    for sign in signs:
        out += _of_one(evidence, sign)
    return tuple(dict.fromkeys(out))


def moved_by(slope: list[float]) -> str:
    """``a move by 1 % changes it by 0.35 %``; ``slope`` is per whole size of the parameters, beside the loss, and
    whether it depends on them in steps alone."""
    by, loss, *steps = slope
    if any(steps):
        return "in steps alone, so no slope is there"
    share = abs(by * _PART / loss) if loss else 0.0
    return f"a move by 1 % changes it by {100 * share:.2g} %" if share else f"its slope there is {by:.3g}"


def _of_one(evidence: Evidence, sign: Sign) -> list[str]:
    looks = [k for k in sign.facts.get("looks", ()) if isinstance(k, dict)]
    whose = optimizer_of(evidence.optimizers, sign)
    whys = [str(k["why"]) for k in looks if k.get("why")] or [str(sign.facts.get("why", ""))]
    good = [k for k in looks if not k.get("why")]
    if not good:
        return [f"{OPTION}: {whose if looks else 'nothing'} was not measured: {whys[0]}"]
    steps = listing([str(k["step"]) for k in good])
    out = []
    every = [a for k in good for a in k["answers"]]
    agrees = {n for a in every if a["answer"] == "agrees" for n in a["parameters"]}
    differs = {n for a in every if a["answer"] not in ("agrees", "independent", "noise") for n in a["parameters"]}
    if agrees - differs:
        held = any(a.get("held") for a in every) and not any(a["answer"] == "another" for a in every)
        so = ", with what the program itself cuts off held" if held else ""
        out.append(
            f"{OPTION}: the gradients that {whose} is given for {folded(agrees - differs)} are those of the loss{so} "
            f"(measured at step{'s' if len(good) > 1 else ''} {steps})"
        )
    out += [f"{OPTION}: {line}" for line in dict.fromkeys(_differences(good))]
    return out


def _differences(looks: Iterable[Look]) -> Iterable[str]:
    """The last look at each module says it: what is measured twice is told once."""
    latest: dict[Any, tuple[Look, Answer]] = {}
    for look in looks:
        for answer in look["answers"]:
            latest[tuple(answer["parameters"]), answer["line"]] = look, answer
    for look, answer in latest.values():
        whose, at = folded(answer["parameters"]), f"{answer['file']}:{answer['line']}"
        kind = answer["answer"]
        if kind in ("missing", "zero"):
            given = "no gradient" if kind == "missing" else "zeros alone"
            moved = moved_by([answer["slope"], answer.get("loss", 0.0), answer.get("jumps", False)])
            yield f"the loss at {at} depends on {whose} ({moved}), and they are given {given}{_where(look)}"
        elif kind == "another":
            functions = _functions(look)
            yield (
                f"the loss at {at} has another gradient for {whose}: along the one that is given its slope is "
                f"{answer['slope']:.3g}, and {answer['gradient']:.3g} by that gradient{_ratio(answer)}{functions}"
            )
        elif kind == "independent":
            yield f"the loss does not depend on {whose}"
        elif kind == "noise":
            yield f"what {whose} do to the loss is not clear of rounding, so nothing is said of them"


def _ratio(answer: Answer) -> str:
    if not answer["slope"]:
        return " (the loss does not move)"
    ratio = answer["gradient"] / answer["slope"]
    return " (the opposite)" if abs(ratio + 1.0) < 0.05 else f" ({ratio:.2g} times as much)"


def _functions(look: Look) -> str:
    """The Functions on the way whose backward does not give the derivative of their forward."""
    found = [
        f"the backward of `{f['name']}`, called at {_at(f['made'])}, gives {times(f)}"
        for f in look.get("functions", ())
        if f["made"]
    ]
    return f"; {listing(found)} the derivative of its forward" if found else ""


def times(function: dict[str, Any]) -> str:
    """What the backward of a Function gives, beside the derivative of its forward."""
    ratio = function["gradient"] / function["slope"]
    return "the opposite of" if abs(ratio + 1.0) < 0.05 else "another gradient than"


def _where(look: Look) -> str:
    """The places at which what depends on them is kept out of the graph, or at which the gradient ends."""
    cuts = [f"`{c['op']}` at {_at(c['frames'])}" for c in look.get("cuts", ()) if c["frames"]]
    if cuts:
        return f": {listing(cuts)} {'cut' if len(cuts) > 1 else 'cuts'} it off"
    ends = [f"`{e['op']}` made at {_at(e['frames'])}" for e in look.get("ends", ()) if e["frames"]]
    if ends:
        return f": it ends at {listing(ends)}"
    if look.get("deep"):
        return "; where it ends is not known: the graph is too large to be followed"
    return f"; {look['cut_why']}" if look.get("cut_why") else ""


def _at(frames: list[dict[str, Any]]) -> str:
    frame = next((f for f in reversed(frames) if f.get("user")), frames[-1])
    return f"{frame['file']}:{frame['line']}"
