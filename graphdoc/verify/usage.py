"""What each optimizer's step uses: a gradient that flows and is cleared before the step trains nothing."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from graphdoc.story.wording import folded, listing
from graphdoc.verify.compared import TOLERANCE
from graphdoc.verify.measures import counterpart, names_of, steps_around, told_place
from graphdoc.verify.traces import Call, Line, Step, Trace, difference


def lost_parameters(base: Trace, patched: Trace, expected: frozenset[str]) -> list[str]:
    """Names of the parameters that a step of their optimizer used a gradient of, or is to, and that no step does now.

    Where their optimizer has not stepped yet in the patched run, it is enough that a gradient flows. One whose
    gradient was exactly zero in every step of the original (neurons that never fire), or came from losses alone that
    still give it one, has lost nothing while its step is given one. Neither has one of an optimizer that the original
    never stepped, where the patched step is given zeros for it beside gradients for others: they cancel (the last bias
    of a critic whose loss is a difference of scores).
    """
    steps = patched.used_keys()
    flows = {key for _, key in patched.flows()}
    stepped = {s.optimizer for s in patched.steps}
    now = steps | {key for key in flows if not patched.holders(key) & stepped}
    used = base.used()
    before = {key for _, key in used - patched.flows()}  # what is given and no step uses is for ``cleared`` to tell
    names = {base.name(key): key for key in (*base.names, *(key for _, key in used))}
    from_anywhere = {key for _, key, places in base.taken() if not places}
    zero = {key for step in base.steps for key in step.each} - before - from_anywhere
    given = {key for step in patched.steps for key in step.each}
    known_steps = {s.optimizer for s in base.steps}
    zero |= {key for key in given if not patched.holders(key) & known_steps}
    before |= {names[name] for name in expected if name in names} - (zero & given)
    known = set(patched.names) | flows
    # A parameter that the patched run has no optimizer for is another matter, unless it has none for any.
    frozen = base.frozen & patched.frozen  # by the program itself, in both runs
    return sorted({base.name(key) for key in before - now - frozen if key in known or not known})


def cleared(base: Trace, patched: Trace, piled: frozenset[str] = frozenset(), on_purpose: bool = False) -> list[str]:
    """Doubts: what a loss gave to a parameter's step in the original and still gives, but no step uses any more.

    ``piled`` are names of parameters whose gradients nobody cleared. What gradients of theirs came from a loss that
    another optimizer steps for were in the sum by that fault alone, and that they are cleared is what the fix is for.
    So it is, ``on_purpose``, with what a fix clears that lets each step take the gradient of its own loss.
    """
    unused = (base.used() & patched.flows()) - patched.used()
    stepped = {s.optimizer for s in patched.steps}
    trains = patched.trains() if piled else {}
    works = base.trains() if on_purpose else {}
    places: dict[Line, list[str]] = {}
    for place, key in sorted(unused):
        holders = patched.holders(key)
        leftover = base.name(key) in piled and _is_of_others(trains, place, holders)
        if holders & stepped and not leftover and not _is_of_others(works, place, holders):
            places.setdefault(place, []).append(key)
    return [
        f"what the loss at {told_place(place)} gives to {names_of(base, keys)} is cleared before a step uses it"
        for place, keys in places.items()
    ]


def mixed(base: Trace, patched: Trace) -> list[str]:
    """Doubts: a step that takes, beside the gradient of a loss of its own, what a loss of another optimizer gave its
    parameters before, and nobody has cleared. The program as it is written may do the same; the step is that of neither
    loss."""
    works = base.trains()
    found: dict[tuple[int, Line], None] = {}
    for optimizer, key, places in patched.taken():
        others = {p for p in places if _is_of_others(works, p, patched.holders(key))}
        if others and places - others:
            found.update(dict.fromkeys((optimizer, p) for p in sorted(others)))
    return [
        f"{patched.optimizer_name(o)} steps with what the loss at {told_place(place)} gives its parameters, too, for "
        f"which {listing(map(patched.optimizer_name, sorted(works[place])))} stepped"
        for o, place in found
    ]


def _is_of_others(trains: Mapping[Line, set[int]], place: Line, holders: set[int]) -> bool:
    """Whether the loss of a place is known to be one that none of these optimizers steps for."""
    return bool(trains.get(place)) and not holders & trains[place]


def never_reached(base: Trace, patched: Trace, reached_from: Mapping[Line, frozenset[str]]) -> list[str]:
    """Names of parameters that no step of their optimizer had a gradient for, where no step of the original tells
    what it is to use: the original never got that far.

    ``reached_from`` has what lay behind each backward call of the original, by its place. Where the patched run has
    backward calls from these places alone, what lay behind none of them has lost nothing: the program itself throws
    away what is computed with it.
    """
    silent = unused_by_steps(base, patched)
    if reached_from and all(c.place in reached_from for c in patched.backwards):
        silent &= frozenset().union(*reached_from.values())
    return sorted(silent)


def unused_by_steps(base: Trace, patched: Trace) -> frozenset[str]:
    """Names of the parameters that no step had a gradient for, of optimizers that only the patched run has stepped."""
    known = {s.optimizer for s in base.steps}
    stepped = {s.optimizer for s in patched.steps} - known
    reached = {key for step in patched.steps for key in step.each} | patched.frozen
    held = {key: patched.holders(key) for key in patched.names if key not in reached}
    return frozenset(patched.names[key] for key, by in held.items() if by & stepped and not by & known)


def steps_in_vain(base: Trace, patched: Trace) -> list[str]:
    """Doubts: an optimizer of which no step ever has a gradient, where no step of the original shows that it is so, and
    one whose gradients are zero at each of several steps: what its losses give it cancels."""
    known = _telling(base)
    given: dict[int, bool] = {}
    for step in patched.steps:
        given[step.optimizer] = given.get(step.optimizer, False) or bool(step.each)
    vain = [o for o, has in given.items() if not has and o not in known]
    zero = [o for o in given if len(mine := patched.steps_of(o)) > 1 and all(s.each and not s.gradients for s in mine)]
    return [
        *(f"{patched.optimizer_name(o)} never has a gradient to step by" for o in vain),
        *(f"every gradient that {patched.optimizer_name(o)} steps by is zero" for o in zero),
    ]


def zeros_alone(base: Trace, patched: Trace) -> list[str]:
    """A doubt: a module whose parameters, several of them, get nothing but zeros at each of several steps that the
    original never made: the loss is built so that what they give cancels, or is multiplied by nothing. Where its steps
    had nothing but nan and inf, they are as good as none, and each parameter counts by itself."""
    known = _telling(base)
    trained = {key for step in base.steps for key, size in step.each.items() if not isfinite(size)}
    steps = [s for s in patched.steps if s.optimizer not in known]
    given = {key for step in steps for key in step.each}
    used = patched.used_keys()
    by_module: dict[str, list[str]] = {}
    for key in given:
        by_module.setdefault(patched.name(key).rpartition(".")[0], []).append(key)
    often = len(steps) > 1
    zero = {k for name, keys in by_module.items() if name and len(keys) > 1 and not used & {*keys} for k in keys}
    zero |= given & trained - used
    names = sorted(patched.name(k) for k in zero)
    gets = "receive" if len(names) > 1 else "receives"
    return [f"{folded(names)} {gets} zeros alone, at every step"] if often and names else []


def _telling(base: Trace) -> set[int]:
    """The optimizers whose steps in the original tell what they are to use: some gradient of theirs was finite, or they
    had none."""
    return {s.optimizer for s in base.steps if not s.each or any(map(isfinite, s.each.values()))}


def steps_starved(base: Trace, patched: Trace) -> list[str]:
    """Doubts: an optimizer of which some step has no gradient, though the same one of the original has, or though each
    of the original's has and this is a later one: what it trains was cut off behind the first steps. That a step of the
    original has nan does not tell that a right one has anything other than zero."""
    told: list[str] = []
    for optimizer in sorted({s.optimizer for s in base.steps if s.gradients}):
        before, now = base.steps_of(optimizer), patched.steps_of(optimizer)
        lost = [b.gradients and isfinite(b.gradients) and not p.gradients for b, p in zip(before, now, strict=False)]
        if all(b.each for b in before):
            lost += [not p.each for p in now[len(before) :]]
        if any(lost):
            name = patched.optimizer_name(optimizer)
            told.append(f"at {sum(map(bool, lost))} of {len(now)} steps {name} has no gradient to step by")
    return told


def fed_once(base: Trace, patched: Trace) -> list[str]:
    """Doubts: parameters that the first step alone has a gradient for, of several, though each of the original's has:
    the start of a state that is set once and cut off behind it."""
    told: list[str] = []
    for optimizer in sorted({s.optimizer for s in base.steps}):
        before, now = base.steps_of(optimizer), patched.steps_of(optimizer)
        if len(now) < 3 or len(before) < 2:
            continue
        used = [{key for key, size in s.each.items() if size} for s in (*before, *now)]
        always = set.intersection(*used[: len(before) + 1])
        once = sorted(patched.name(key) for key in always.difference(*used[len(before) + 1 :]))
        if once:
            gets = "get" if len(once) > 1 else "gets"
            told.append(f"{folded(once)} {gets} a gradient at the first of {len(now)} steps alone")
    return told


def steps_twice(base: Trace, patched: Trace) -> list[str]:
    """Doubts: an optimizer that steps twice in a row by one gradient, which the original's never did."""
    known = _in_a_row(base)
    return [
        f"{patched.optimizer_name(o)} steps twice by the same gradient" for o in _in_a_row(patched) if o not in known
    ]


def _in_a_row(trace: Trace) -> list[int]:
    """The optimizers of which two steps follow one another with no call between that gives them a gradient."""
    last: dict[int, Step] = {}
    found: dict[int, None] = {}
    for entry in trace.order[: trace.order.index(trace.calls[-1])] if trace.calls else ():
        if isinstance(entry, Call):
            given = {o for key in entry.gained for o in trace.holders(key)}
            known = entry.measured and entry.kind == "backward"
            last = {o: step for o, step in last.items() if known and o not in given}
            continue
        before = last.get(entry.optimizer)
        # Zeros move nothing, however often: what a call adds to them is not seen where it has converged.
        if before is not None and entry.gradients and before.each == entry.each:
            found.setdefault(entry.optimizer)
        last[entry.optimizer] = entry
    return list(found)


def differentiated_away(base: Trace, patched: Trace, names: list[str]) -> set[str]:
    """Of parameters without gradient those that a right program gives none either: what is added behind the last layer
    (its bias) is in no derivative of the network, and the loss is made of derivatives alone.

    Such a one never had a gradient in the original; the patched run asks for derivatives, and all other parameters of
    the same module are used by a step. A graph that was cut leaves those without gradient as well.
    """
    if not any(c.kind == "grad" for c in patched.calls):
        return set()
    used = {patched.names[key] for key in patched.used_keys() if key in patched.names}
    had = {base.name(key) for _, key in base.used()}
    out = set()
    for name in names:
        module = name.rpartition(".")[0]
        beside = {n for n in patched.names.values() if n.rpartition(".")[0] == module and n != name} - {*names}
        if module and name not in had and beside and beside <= used:
            out.add(name)
    return out


def not_compared(base: Trace, patched: Trace) -> list[str]:
    """Optimizers that step in the patched run and did not in the original, as far as that could be made to go."""
    if not base.steps:
        return []  # nothing of the original is known: that is said in other words
    new = {s.optimizer for s in patched.steps} - {s.optimizer for s in base.steps}
    return sorted(patched.optimizer_name(o) for o in new)


def reference_gap(base: Trace, patched: Trace, failing: int) -> tuple[float | None, float | None]:
    """How far the first step of each optimizer behind the failure and its last one before, and the loss there, are from
    the unpatched program made to go on: the largest relative difference of gradients, and that of the loss; None where
    one is not known.
    """
    gradients: float | None = None
    for step in steps_around(base, failing):
        other = counterpart(base, patched, step)
        if other is not None:
            gradients = max(gradients or 0.0, difference(step.each, other.each))
    at = next((c for c in base.backwards if c.index >= failing >= 0), None)
    if at is None or at.value is None:
        return gradients, None
    same = [c for c in patched.backwards if c.place == at.place]
    number = [c for c in base.backwards if c.place == at.place].index(at)
    now = same[number] if number < len(same) else None
    if now is None or now.value is None:
        return gradients, None
    gap = difference({"": at.value}, {"": now.value})
    # A helper that differentiates every loss may have been given this one earlier.
    known = [difference({"": at.value}, {"": c.value}) for c in same[:number] if c.value is not None]
    return gradients, min([gap, *(k for k in known if k <= TOLERANCE)])


def reaches_nothing(patched: Trace, covered: frozenset[Line]) -> str:
    """What is wrong if a backward call that was to reach parameters, and reached none, still gives none a gradient, as
    far as it was measured; empty otherwise."""
    for place in sorted(covered):
        measured = [c for c in patched.backwards if c.place == place and c.measured]
        if measured and not any(c.gained for c in measured):
            return f"the backward at {told_place(place)} still reaches no parameter"
    return ""
