"""A verdict in words: how the patched run ended, what it trains, what could not be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphdoc.story.wording import folded
from graphdoc.verify.compared import TOLERANCE, Outcome
from graphdoc.verify.traces import Trace


def then_fails(outcome: Outcome) -> str:
    return f"the program then meets {_another(outcome)}"


def fails_otherwise(outcome: Outcome) -> str:
    """Of a program that may not have come as far as the failure."""
    return f"the patched program meets {_another(outcome)}"


def _another(outcome: Outcome) -> str:
    failure = f"{shortened(outcome.failure)}{outcome.outside}"
    return f"another failure{outcome.place}, which no changed line leads to: {failure}"


def unmeasured(data: dict[str, Any]) -> str:
    why = str(data.get("reference", "")).removeprefix("none: ")
    return f"there is nothing to compare its gradients with{f' ({why})' if why else ''}"


def percent(size: float) -> str:
    """``4.2 %``, ``91 %``, ``250 %``."""
    return f"{100 * size:.2g} %" if size < 0.995 else f"{100 * size:.0f} %"


def praise(
    outcome: Outcome, trace: Trace, data: dict[str, Any], known: bool, went_on: bool, steady: bool, ended: bool
) -> str:
    end = f"still running after {outcome.seconds:.0f} s" if outcome.timed_out else "ran to its end"
    if outcome.stopped:
        end = "went on until it was stopped" if went_on else "went on behind the failure until it was stopped"
    if outcome.failure:
        end = "went on behind the failure"
    steps = f"{trace.total_steps} optimizer steps" if trace.total_steps != 1 else "1 optimizer step"
    parts = [f"the patched program {end} ({steps})"]
    parts.append(reached(trace, data, known, ended))
    if "max_relative_difference" in data:
        difference = data["max_relative_difference"]
        parts.append(f"gradients equal the reference (largest relative difference {difference:.1g})")
    elif data.get("reference_gradients", 1.0) <= TOLERANCE:
        parts.append("gradients equal those of the program as it is written, made to go on")
    elif data.get("loss_difference") is not None:
        parts.append("the loss is that of the unpatched program made to go on")
    gap = {k: v for k in ("gradients", "loss") if (v := data.get(f"reference_{k}", 0.0)) > TOLERANCE}
    if gap and "max_relative_difference" not in data:  # one call on a sum has another loss, and equal gradients
        told = " and ".join(f"{what} by {percent(size)}" for what, size in gap.items())
        parts.append(f"it differs from the program as it is written: {told}")
    parts += data.get("first_call", [])
    if not steady:
        parts.append("the program's numbers differ from one run to the next, and were not compared")
    elif data.get("draws_elsewhere"):
        parts.append("it draws random numbers at another point of the run, so that its numbers were not compared")
    if data.get("draws_again"):
        parts.append("what runs again draws other random numbers than the first time, so the losses are of two draws")
    for stopped in data.get("stopped_elsewhere", [])[:2]:
        parts.append(stopped)
    if data.get("not_compared"):
        where = "are none of the unpatched program's" if went_on else "lie behind the failure"
        parts.append(f"the steps of {listed(data['not_compared'])} {where} and could not be compared")
    if outcome.failure:
        parts.append(then_fails(outcome))
    return "; ".join(part for part in parts if part)


def told_lost(base: Trace, lost: list[str]) -> str:
    """Which parameters get nothing; only of those that a step of the original had a gradient for is it new."""
    had = {base.name(key) for _, key in base.used()}
    gone, never = [n for n in lost if n in had], [n for n in lost if n not in had]
    parts = [f"{folded(gone)} no longer {receive(gone)} any gradient"] if gone else []
    parts += [f"{folded(never)}, which a step is to use, {receive(never)} no gradient"] if never else []
    return " and ".join(parts)


def reached(trace: Trace, data: dict[str, Any], known: bool, ended: bool) -> str:
    """What the patched program trains, as one part of the sentence. ``ended``: what was to get no gradient any more
    gets none.
    """
    missed = data.get("never_reached", [])
    if known and trace.backwards and data.get("idle_stopped"):
        return "every parameter of which a step used a gradient still gets one"
    if known and trace.backwards:
        return f"every {'other ' if ended else ''}parameter that received gradient still does"
    if missed:
        return f"the change takes no gradient from anything; {folded(missed)} {receive(missed)} none at any step"
    if trace.steps:
        away = data.get("differentiated_away", [])
        but = f" but {folded(away)}, on which no derivative depends" if away else ""
        which = [" that requires grad"] if trace.frozen else []
        which += [" that a loss reaches"] if data.get("left_out") and not away else []
        of = " and".join(which)
        given = {key for step in trace.steps for key in step.each}
        zeros = sorted(trace.name(key) for key in given - trace.used_keys())
        only = f", {folded(zeros)} zeros alone" if zeros else ""
        idle = sum(1 for step in trace.steps if step.each and not step.gradients)
        if idle and not zeros:
            only = f", at {idle} of {len(trace.steps)} steps zeros alone"
        return f"every parameter of its optimizers{of} receives gradient{but}{only}"
    return "" if trace.optimizers else "as many leaves receive gradient as before"


def receive(names: list[str]) -> str:
    return "receives" if len(names) == 1 else "receive"


def listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 140 else line[:139] + "…"
