"""Whether the losses and gradients of a patched run are finite wherever they are to be."""

from __future__ import annotations

from math import isfinite, isnan

from graphdoc.verify.gradient_sizes import difference
from graphdoc.verify.measures import counterpart, names_of, same_call, told_place
from graphdoc.verify.traces import Call, Line, Step, Trace
from graphdoc.verify.verdict_words import percent


def not_finite(base: Trace, patched: Trace, mended: bool) -> str:
    """What of a patched run is not finite and is to be, as a sentence; empty where all is.

    A gradient counts by which an optimizer steps, and a loss behind which one does: what a GradScaler, or the program
    itself, leaves out has been dealt with. Without optimizers every call counts. Unless the patch is to have ``mended``
    such values, what the unpatched program has at the same call or step as well is the program's own.
    """
    waiting: dict[Line, Call] = {}
    for entry in patched.order:
        if isinstance(entry, Step):
            told = "" if entry.left_out else _of_loss(waiting) or _of_step(base, patched, entry, mended)
        elif entry.inner:
            continue
        else:
            same = None if mended else same_call(patched, base, entry)
            bad = not _is_finite(entry) and (same is None or _is_finite(same))
            waiting.pop(entry.place, None)
            if bad:
                waiting[entry.place] = entry
            told = "" if patched.optimizers else _of_loss(waiting)
        if told:
            return told
    return ""


def changed_before(base: Trace, patched: Trace, tolerance: float) -> list[str]:
    """A doubt if a step is by other gradients than in the program as it is written, although nothing of that was nan or
    inf up to there: a bound is to leave alone what was finite.
    """
    for entry in base.order:
        if isinstance(entry, Call):
            if not _is_finite(entry):
                break
            continue
        other = counterpart(base, patched, entry)
        if other is None or not all(map(isfinite, entry.each.values())):
            break
        gap = difference(entry.each, other.each)
        if gap > tolerance:
            name, number = base.optimizer_name(entry.optimizer), base.steps_of(entry.optimizer).index(entry) + 1
            return [
                f"step {number} of {name}, where all was finite, is by other gradients than before (by {percent(gap)})"
            ]
    return []


def _is_finite(call: Call) -> bool:
    """Whether what a call starts from is, and what it gives to leaves of no optimizer."""
    return all(size is None or isfinite(size) for size in (call.value, call.loose_sum, *call.sums))


def _of_loss(calls: dict[Line, Call]) -> str:
    for place, call in calls.items():
        if call.value is not None and not isfinite(call.value):
            return f"the loss at {told_place(place)} is {'nan' if isnan(call.value) else 'inf'}"
        return f"the gradients of the call at {told_place(place)} are not finite"
    return ""


def _of_step(base: Trace, patched: Trace, step: Step, mended: bool) -> str:
    before = None if mended else counterpart(patched, base, step)
    own = {k for k, size in before.each.items() if not isfinite(size)} if before is not None else set()
    bad = [k for k, size in step.each.items() if not isfinite(size) and k not in own]
    if not bad:
        return ""
    return (
        f"{patched.optimizer_name(step.optimizer)} steps by gradients of {names_of(patched, bad)} that are not finite"
    )
