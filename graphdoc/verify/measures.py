"""The single measures of a patched run's trace against the original's; places are those of the original's lines."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable

from graphdoc.story.wording import folded
from graphdoc.verify.traces import Call, Line, Step, Trace, apart, difference

_CYCLE = re.compile(r"backward\(\) with create_graph=True will create a reference cycle")
_READ = re.compile(r"Converting a tensor with requires_grad=True to a scalar")
"""``float(loss)`` behind the step: the number is looked at, and had no graph to lose before the patch."""

MANY = 8
"""Calls from one place over which a graph must have grown each time to count as growing."""
_ABOUT_AUTOGRAD = re.compile(
    r"autograd|\.grad\b|grad_fn|requires_grad|create_graph|lr_scheduler\.step|leaf Tensor|detach"
)


def stopped_steps(base: Trace, patched: Trace) -> list[str]:
    """Optimizers that stepped in the original and never do in the patched run."""
    gone = {s.optimizer for s in base.steps} - {s.optimizer for s in patched.steps}
    return sorted(base.optimizer_name(o) for o in gone)


def idle_before(base: Trace, failing: int) -> bool:
    """Whether the original stepped before it failed, and none of these steps had a gradient: that is another fault."""
    before = [s for s in base.steps if failing < 0 or s.index < failing]
    return bool(before) and not any(s.gradients for s in before)


def silent_afterwards(patched: Trace, failing: int, gone: str) -> str:
    """A sentence if every gradient is zero or missing from the point of the failure on."""
    later = [s for s in patched.steps if s.index > failing]
    if later and not any(s.gradients for s in later):
        return f"{gone}, but no later step has a gradient other than zero"
    if patched.optimizers and not later and not any(c.gained or c.loose or c.sums for c in patched.calls):
        return f"{gone}, but no parameter receives any gradient"
    return ""


def stopped_flows(
    base: Trace,
    patched: Trace,
    failing: int = -1,
    own_graph: frozenset[str] = frozenset(),
    spared: frozenset[str] = frozenset(),
) -> tuple[list[str], list[str]]:
    """Which loss no longer trains which parameter, as sentences: those that may stop, and those that raise doubt.

    A gradient may stop flowing into a parameter that belongs to another optimizer's objective and is still trained by
    a loss of its own. It may not where the optimizer that steps after this very backward owns the parameter, nor where
    the call that had failed reached it by what was computed since the earlier calls (``own_graph``, names). Those that
    are ``spared`` are to receive none (names).
    """
    call = base.call_of(failing)
    failed = call.place if call is not None else None
    now = patched.flows()
    places = {place for place, _ in now}
    trained = {key for _, key in now}
    trains = base.trains()
    allowed: dict[Line, list[str]] = {}
    suspect: dict[Line, list[str]] = {}
    for place, key in sorted(base.flows() - now):
        if place not in places or key not in trained or base.name(key) in spared:
            continue
        owners = base.holders(key) & trains.get(place, set())
        touched = {o for p, k in now if p == place for o in patched.holders(k)}
        doubtful = bool(owners) and (len(trains[place]) == 1 or bool(owners & touched)) and (place, key) in base.used()
        doubtful = doubtful or (place == failed and base.name(key) in own_graph)
        (suspect if doubtful else allowed).setdefault(place, []).append(key)
    # What gives a gradient that is cleared before the step trains nothing: told is another where there is one.
    elsewhere = {key: place for place, key in (*sorted(now), *sorted(patched.used()))}
    still = {p: [k for place, k in now if place == p] for p in (*allowed, *suspect)}
    return (
        [
            f"the backward at {told_place(p)} no longer reaches {_trained(base, k, elsewhere, still[p])}"
            for p, k in allowed.items()
        ],
        [
            f"the loss at {told_place(p)} no longer trains {names_of(base, keys, still[p])}"
            for p, keys in suspect.items()
        ],
    )


def _trained(base: Trace, keys: list[str], elsewhere: dict[str, Line], still: list[str]) -> str:
    """Parameters with the places of the backward calls that train them; ``still`` are those that are reached yet."""
    by_place: dict[Line, list[str]] = {}
    for key in keys:
        by_place.setdefault(elsewhere[key], []).append(key)
    return ", ".join(f"{names_of(base, own, still)}, trained at {told_place(place)}" for place, own in by_place.items())


def draws_elsewhere(base: Trace, patched: Trace) -> bool:
    """Whether the patched run has drawn more or fewer random numbers than the original by the time of its first call
    or of an optimizer: what moves a computation moves its dropout, and every number after it is another draw."""
    return any(a != b for a, b in zip(base.draws, patched.draws, strict=False))


def draws_again(base: Trace, patched: Trace, failing: int) -> bool:
    """Whether other random numbers had been drawn before the call that had failed than in the program as it is written:
    what runs once more has other dropout, or another sample, than the first time."""
    at = base.call_of(failing)
    now = same_call(base, patched, at) if at is not None else None
    return at is not None and now is not None and bool(at.drawn and now.drawn) and at.drawn != now.drawn


def reference_difference(base: Trace, patched: Trace, failing: int) -> tuple[float | None, str]:
    """The largest relative difference between the gradients of the patched run and of the reference run behind the
    failure, and how it was measured; None where there is nothing to compare.

    Compared is what each optimizer's first step behind the failure uses, and its last one before; without optimizer
    steps, what the call that had failed gives. What a patch has moved may only tell in the round behind that: of the
    next steps a tenth of the difference counts, for rounding grows with each.
    """
    worst: float | None = None
    for step in steps_around(base, failing):
        other = counterpart(base, patched, step)
        if other is None:
            return 1.0, "the optimizer steps fewer times than in the reference"
        worst = max(worst or 0.0, difference(step.each, other.each))
    for step in _later_steps(base, failing) if worst is not None else ():
        other = counterpart(base, patched, step)
        if other is not None:
            worst = max(worst or 0.0, difference(step.each, other.each) / 10)
    if worst is not None and any(s.index > failing for s in base.steps):
        return worst, "gradients at the first optimizer step after the failure, by the unpatched program made to go on"
    at = base.call_of(failing)
    now = same_call(base, patched, at) if at is not None else None
    pair: tuple[dict[str, float], dict[str, float]] | None = None
    if at is None or now is None:
        return None, ""
    if at.kind == "grad" and at.sums and len(at.sums) == len(now.sums):
        before, after = ({str(i): v for i, v in enumerate(c.sums) if v is not None} for c in (at, now))
        pair = before, after
    elif at.gained:
        pair = at.gained, now.gained
    elif at.loose and at.loose == now.loose:  # of leaves that no optimizer has, the sizes are known together
        pair = {"": at.loose_sum}, {"": now.loose_sum}
    how = "gradients of the call that had failed, by the unpatched program"
    return (difference(*pair), how) if pair is not None else (None, "")


def counterpart(base: Trace, patched: Trace, step: Step) -> Step | None:
    """The step of the patched run that its optimizer makes as the one of this number; None where it makes fewer."""
    number, others = base.steps_of(step.optimizer).index(step), patched.steps_of(step.optimizer)
    return others[number] if number < len(others) else None


def same_call(base: Trace, patched: Trace, call: Call) -> Call | None:
    """The call of the patched run that is made from this place as the one of this number; None where it makes fewer."""
    number, others = base.calls_from(call.place).index(call), patched.calls_from(call.place)
    return others[number] if number < len(others) else None


def steps_around(base: Trace, failing: int) -> list[Step]:
    """Of each optimizer the last step before the failure and the first one behind it."""
    before = {s.optimizer: s for s in base.steps if s.index <= failing}
    behind = {s.optimizer: s for s in reversed(base.steps) if s.index > failing}
    return [*before.values(), *behind.values()]


def _later_steps(base: Trace, failing: int) -> list[Step]:
    """Of each optimizer the second and third step behind the failure."""
    found: dict[int, list[Step]] = {}
    for step in base.steps:
        if step.index > failing:
            found.setdefault(step.optimizer, []).append(step)
    return [s for steps in found.values() for s in steps[1:3]]


def changed_loss(base: Trace, patched: Trace, failing: int, tolerance: float) -> tuple[float | None, list[str]]:
    """The relative difference between the loss of the patched run and that of the reference at the point of the
    failure, and a doubt where they differ there or, by ten times as much, at a later call; None where one of them is
    not known.

    A fix that only keeps tensors from being overwritten leaves every number as it is. What it keeps from a store that
    was to be written is missed when the store is read next, which may be many calls later.
    """
    at = next((c for c in base.backwards if c.index >= failing >= 0), None)
    first: float | None = None
    for call in base.backwards[base.backwards.index(at) :] if at is not None else ():
        same = same_call(base, patched, call)
        if call.value is None or same is None or same.value is None:
            if call is at:
                return None, []
            continue
        difference = apart(call.value, same.value)
        first = difference if first is None else first
        if difference > tolerance * (1 if call is at else 10):
            return difference, [
                f"the loss at {told_place(call.place)} is {same.value:.6g}, and {call.value:.6g} in the program as it "
                "is written: perhaps something that is used afterwards is not written any more"
            ]
    return first, []


def changed_first_loss(base: Trace, patched: Trace, tolerance: float) -> list[str]:
    """A doubt if the very first loss, before any step, is another number than in the program, which went on.

    What only gets its graph back keeps its value; where its shape has become another one, a loss may be taken of other
    pairs.
    """
    call = base.backwards[0] if base.backwards else None
    same = same_call(base, patched, call) if call is not None else None
    if call is None or same is None or call.value is None or same.value is None:
        return []
    if any(s.index < min(call.index, same.index) for s in (*base.steps, *patched.steps)):
        return []
    if apart(call.value, same.value) <= tolerance:
        return []
    return [
        f"the first loss, at {told_place(call.place)}, is {same.value:.6g}, and {call.value:.6g} in the program as it "
        "is written"
    ]


def walks_old_graph(base: Trace, patched: Trace, failing: int, gone: str) -> str:
    """A sentence if the call that had failed still walks what it has walked in an earlier iteration, although an
    optimizer has stepped what lies behind that: it adds gradients of older values to the parameters of now.

    Gradients that are cleared before a step uses them do no harm.
    """
    at = base.call_of(failing)
    calls = patched.calls_from(at.place) if at is not None else []
    again = [c for c in calls if any(c.gained.get(key) for key in c.old)]  # zeros add nothing
    fates = [_fate(patched, c) for c in again]
    # What stands open at the end of the trace goes the way of what was seen before.
    bad = next((c for c, fate in zip(again, fates, strict=True) if fate is True), None)
    if bad is None and again and False not in fates:
        bad = again[0]
    if bad is None:
        return ""
    given = names_of(patched, [key for key in bad.old if bad.gained.get(key)])
    return (
        f"{gone}, but the backward at {told_place(bad.place)} still goes through the graph of "
        f"an earlier iteration: {given} get gradients of values that have been updated since"
    )


def steps_by_old_values(base: Trace, patched: Trace, failing: int) -> list[str]:
    """A doubt: an optimizer goes by a gradient that belongs to values which its own last step has changed, as no step
    of the program before the failure does. Where another optimizer's step has, the two update at once, which may be
    meant.
    """
    known = {(c.place, key) for c in base.backwards if c.index < failing for key in c.stale}
    for number, entry in enumerate(patched.order):
        if not isinstance(entry, Call) or entry.inner or entry.kind != "backward":
            continue
        own = [key for key in entry.stale if entry.gained.get(key) and (entry.place, key) not in known]
        used = [k for k in own if entry.within in patched.holders(k) or _steps_again(patched, number, k)]
        if used:
            return [
                f"the backward at {told_place(entry.place)} gives {names_of(patched, used)} the gradient of values "
                "that a step has changed since the forward pass"
            ]
    return []


def _steps_again(trace: Trace, number: int, key: str) -> bool:
    """Whether the step that uses what this call gives to a parameter is by the optimizer that moved it last."""
    rest = trace.order[number + 1 :]
    mine = next((e for e in rest if isinstance(e, Step) and key in e.each), None)
    last = next((e for e in reversed(trace.order[:number]) if isinstance(e, Step) and key in e.each), None)
    return bool(mine and last and mine.optimizer == last.optimizer) and _first_use(rest, key) is True


def _fate(trace: Trace, call: Call) -> bool | None:
    """Whether a step used what this call gave to what had been stepped; False: all of it was cleared before; None: it
    was neither used nor all cleared up to the end of the trace.
    """
    if any(call.within in trace.holders(key) for key in call.old):
        return True  # the step that runs the closure goes by what it gives, whatever is cleared later
    rest = trace.order[trace.order.index(call) + 1 :]
    fates = [_first_use(rest, key) for key in call.old]
    return True if True in fates else None if None in fates else False


def _first_use(rest: list[Call | Step], key: str) -> bool | None:
    for entry in rest:
        if isinstance(entry, Step) and key in entry.each:
            return True
        if isinstance(entry, Call) and key in entry.fresh:
            return False
    return None


def graph_grows(patched: Trace) -> list[str]:
    """A doubt if the graph behind one backward place grows with every call: something old is still carried along."""
    by_place: dict[Line, list[Call]] = {}
    for call in patched.backwards:
        if call.measured:
            by_place.setdefault(call.place, []).append(call)
    for place, calls in by_place.items():
        sizes = [c.nodes for c in calls[:12]]
        if len(sizes) >= MANY and all(a < b for a, b in itertools.pairwise(sizes)):
            return [
                f"the graph at {told_place(place)} grows with every call ({sizes[0]} nodes, then up to {sizes[-1]})"
            ]
    return []


def new_warnings(base: Trace, patched: Trace) -> list[str]:
    """A doubt for a warning about gradients that the original did not give.

    That ``backward(create_graph=True)`` makes a cycle of parameter and gradient is no doubt by itself. It is one where
    several losses write into ``.grad`` before a step: the gradient that was looked at is then added to the others.
    """
    known = {_plain(w) for w in base.warnings}
    for text in patched.warnings:
        if not _ABOUT_AUTOGRAD.search(text) or _READ.search(text) or _plain(text) in known:
            continue
        if not _CYCLE.search(text) or _mixed(patched):
            return [f"it warns: {textwrap.shorten(text, 160, placeholder=' …')}"]
    return []


def _mixed(trace: Trace) -> bool:
    """Whether backward calls from two places come together in one step, or in none."""
    places: set[Line] = set()
    for entry in trace.order:
        if not isinstance(entry, Call):
            places.clear()
        elif entry.kind == "backward":
            places.add(entry.place)
            if len(places) > 1:
                return True
    return False


def _plain(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def names_of(trace: Trace, keys: list[str], beside: Iterable[str] = ()) -> str:
    """The parameters by the modules that hold them, none of which holds one of those ``beside`` them."""
    return folded((trace.name(k) for k in keys), beside=[trace.name(k) for k in beside])


def told_place(place: Line) -> str:
    return f"{place[0]}:{abs(place[1])}"
