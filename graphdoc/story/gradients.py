"""Telling gradients: measured by ``--check-gradients``, None, zero, cancelled, of another loss, thrown away."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from graphdoc.evidence import ALL_ZEROS, GRADIENTS, Cut, Evidence, Frame, Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at, together
from graphdoc.model import Role, Span
from graphdoc.program import bindings
from graphdoc.program.asked_gradients import Beside, FlaggedLate, OfAnother, Reason, TakenOut, Unset, Why
from graphdoc.program.carried_names import bound_names
from graphdoc.program.gradient_reads import gradients_are_given, gradients_are_read, gradients_between
from graphdoc.program.inner_gradient import Entered, entered
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import spelled
from graphdoc.program.proof import Proof, first_sign, likely, name_of
from graphdoc.program.remainders import waits_for_a_count
from graphdoc.program.rounds import behind_inner_loop
from graphdoc.program.spans import code_at, innermost_at, innermost_user, of_sign, short_code, span, span_of, where
from graphdoc.program.written_out import written_out
from graphdoc.source.expressions import entry_of_parameters
from graphdoc.source.module import each, given_to
from graphdoc.source.paths import last_word, only, parse_expression, plain_names
from graphdoc.story.wording import as_called, folded, in_number, listing, optimizer_of

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
        return "only in jumps, so there is no slope"
    share = abs(by * _PART / loss) if loss else 0.0
    return f"a move by 1 % changes it by {100 * share:.2g} %" if share else f"its slope there is {by:.3g}"


def _of_one(evidence: Evidence, sign: Sign) -> list[str]:
    looks = [k for k in sign.facts.get("looks", ()) if isinstance(k, dict)]
    whose = optimizer_of(evidence.optimizers, sign)
    whys = [str(k["why"]) for k in looks if k.get("why")] or [str(sign.facts.get("why", ""))]
    good = [k for k in looks if not k.get("why")]
    if not good:
        return [f"{OPTION}: {f'{whose} was not' if looks else 'nothing was'} measured: {whys[0]}"]
    steps = listing([str(k["step"]) for k in good])
    out = []
    every = [a for k in good for a in k["answers"]]
    agrees = {n for a in every if a["answer"] == "agrees" for n in a["parameters"]}
    nothing = ("agrees", "independent", "cancels", "noise")
    differs = {n for a in every if a["answer"] not in nothing for n in a["parameters"]}
    if agrees - differs:
        held = any(a.get("held") for a in every) and not any(a["answer"] == "another" for a in every)
        so = ", with what the program itself cuts off held" if held else ""
        so += "; they are changed before the step" if any(k.get("turned") for k in good) else ""
        out.append(
            f"{OPTION}: the gradients that {whose} is given for {folded(agrees - differs)} are those of the loss as "
            f"it is written{so} (measured at step{'s' if len(good) > 1 else ''} {steps}; whether it is the loss "
            f"that was meant is not)"
        )
    out += [f"{OPTION}: {line}" for line in dict.fromkeys(_differences(good))]
    return out


def _differences(looks: Iterable[Look]) -> Iterable[str]:
    """The last look at each module says it: what is measured twice is told once."""
    latest: dict[Any, tuple[Look, Answer]] = {}
    for look in looks:
        for answer in look["answers"]:
            latest[tuple(answer["parameters"]), answer["line"]] = look, answer
    depends = {n for _, a in latest.values() if a["answer"] not in ("independent", "noise") for n in a["parameters"]}
    together: dict[tuple[str, str], set[str]] = {}
    for _, answer in latest.values():
        own = {*answer["parameters"]} - (depends if not answer["file"] else set())
        together.setdefault((answer["answer"], _place_of(answer)), set()).update(own)
    for look, answer in latest.values():
        kind, at = answer["answer"], _place_of(answer)
        loss = f"the loss{' at ' + at if at else ''}"
        names = answer["parameters"] if kind in ("missing", "zero", "another", "cancels") else together[kind, at]
        whose = folded(names)
        if not names:
            continue
        if kind in ("missing", "zero"):
            given = "no gradient" if kind == "missing" else "zeros alone"
            moved = moved_by([answer["slope"], answer.get("loss", 0.0), answer.get("jumps", False)])
            yield f"{loss} depends on {whose} ({moved}), and they are given {given}{_where(look)}"
        elif kind == "another":
            way, ratio = ("across", "") if answer.get("across") else ("along", _ratio(answer))
            yield (
                f"{loss} has another gradient for {whose}: {way} the one that is given its slope is "
                f"{answer['slope']:.3g}, and {answer['gradient']:.3g} by that gradient{ratio}{_functions(look)}"
            )
        elif kind == "independent":
            yield f"{loss} does not depend on {whose}" if at else f"no loss was seen to depend on {whose}"
        elif kind == "cancels":
            yield f"{whose} are given what rounding leaves of gradients that cancel"
        elif kind == "noise":
            yield f"what {whose} do to {loss} is not clear of rounding or jumps, so nothing is said of them"


def _place_of(answer: Answer) -> str:
    return f"{answer['file']}:{answer['line']}" if answer["file"] else ""


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
    if not function["slope"]:
        return "the same gradient whatever it is given, not"
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


# How a gradient is told of that is None where it is read.

_TITLES = {
    Why.FROZEN: "`{read}` is None: `{name}` is frozen",
    Why.UNCALLED: "`{read}` is None: no backward call has been made yet",
    Why.CLEARED: "`{read}` is None: the gradients have been cleared before it is read",
    Why.LEFT_OUT: "`{read}` is None: the loss does not reach `{name}`",
    Why.TAKEN: "`{read}` is None: the gradient of `{name}` has been taken away again",
}
_EXPLAINED = {
    Why.FROZEN: "`{name}` has `requires_grad=False`, so backward computes no gradient for it.",
    Why.UNCALLED: "`.grad` is None until a backward call has filled it for the first time.",
    Why.CLEARED: "`zero_grad()` sets `.grad` to None, and no backward call has filled it since.",
    Why.LEFT_OUT: "Backward fills `.grad` of the leaf tensors that the loss depends on. `{name}` is not among them, so "
    "its `.grad` stays None. Look between the two for `.detach()`, `no_grad`, `torch.tensor(...)` or another copy.",
    Why.TAKEN: "A backward call has reached `{name}`, and its `.grad` is None now: `zero_grad()` of a module and "
    "`.grad = None` take it away, and a custom Function may have given none.",
}


def title(unset: Unset) -> str:
    """The report's headline."""
    return _TITLES[unset.why].format(read=f"{unset.name}.grad", name=unset.parameter.name)


def explanation(unset: Unset) -> str:
    """What it means."""
    return _EXPLAINED[unset.why].format(name=unset.parameter.name)


def because(unset: Unset) -> str:
    """The evidence, in one sentence; empty where the title has said it all."""
    clear = where(innermost_user(unset.clear.stack)) if unset.clear is not None else ""
    last = where(innermost_user(unset.last.stack)) if unset.last is not None else ""
    if unset.why is Why.CLEARED:
        after = f", after the backward call at {last}" if last else ""
        return f"`zero_grad()` at {clear} sets it to None{after}, and no backward call has come since"
    if unset.why is not Why.LEFT_OUT:
        return ""
    told = folded(unset.beside, beside=(unset.parameter.name,)) if unset.proven else ""
    many = len(unset.calls) > 1
    reach = f"reach{'' if many else 'es'} {told} and not `{unset.parameter.name}`" if told else ""
    calls = f"{'the backward calls' if many else 'the backward call'} since" if clear else "the backward calls"
    if not clear and not many:
        calls = "the only backward call"
    parts = [f"`zero_grad()` at {clear} sets it to None" if clear and last else "", f"{calls} {reach}" if reach else ""]
    return ", and ".join(p for p in parts if p)


# Telling an operation whose derivative is zero everywhere, in a run that went on: no gradient passes.

MOSTLY = 0.75
"""Of a gradient, the part that is zero from which on that is told."""
_ROUNDS = ("RoundBackward0", "RoundBackward1", "FloorBackward0", "CeilBackward0", "TruncBackward0")


def zero_derivative(program: Program, sign: Sign) -> Finding:
    """The finding for a ``zero-derivative`` or ``scale-alone`` sign."""
    whose = folded(sign.parameters) or f"the parameters of {optimizer_of(program.optimizers, sign)}"
    code = code_at(program.sources, innermost_user(sign.stack))
    cause = span_of("cause", sign.stack, "its derivative is zero everywhere: no gradient passes")
    scale = innermost_at(sign.facts.get("scale"))
    if scale is not None:
        return _scale_alone(program.sources, sign, code, whose, scale)
    why = "Rounding and signs are flat between their jumps, so PyTorch defines their derivative as zero. The graph "
    why += "goes on through them, which is why nothing fails. A straight-through estimator sends the gradient past "
    why += "them: `x + (torch.round(x) - x).detach()`."
    exactly = "exactly zero"
    if _is_draw(sign):
        drawn = bindings.call_at(program.sources, innermost_user(sign.stack))
        code = f"{bindings.text_of(drawn.func)}()" if drawn is not None else code
        why = "A drawn number does not say how it would move with its parameters: PyTorch defines the derivative of "
        why += "the draw as zero, and the graph goes on through it. Draw noise apart from the parameters, as `mean + "
        why += "std * noise`; a decision needs its log-probability or a relaxation."
    if str(sign.facts.get("op", "")).endswith("NotImplemented"):
        return _unregistered(sign, code, whose)
    if flat := sign.facts.get("flat"):
        return _flat(sign, code, whose, str(flat))
    if "single" in sign.facts:
        op = str(sign.facts.get("op", ""))
        over, why = _over_one(op, sign.facts["single"])
        exactly = exactly if "Softmax" in op else "zero but for rounding"
        cause = span_of("cause", sign.stack, f"{over}: constant for every input")
    if "rest" in sign.facts:
        return _at_rest(program, sign, code, whose)
    if "rounding" in sign.facts:
        return _rounding(sign, code, whose)
    if "term" in sign.facts:
        title = f"`{code}` stops every gradient of one term of the loss" + f" for {whose}" * ("single" in sign.facts)
        if not sign.facts["term"] and _is_draw(sign):
            title = f"a term of this loss gives {whose} no gradient: it uses a drawn number"
        weight = likely(0.92)  # that the term has no gradient is seen; that it should have one is not
        places = (*cause, *span_of("related", sign.other, "the other terms of this loss have gradients"))
        because = f"in {sign.count} backward calls every way from this term to {whose} led through it: they learn by "
        because += "the other terms alone"
        return Finding(*weight, title, why, places, remedies=_let_through(sign, code, whose), because=because)
    title = f"`{code}` stops every gradient: {whose} only receive zeros"
    spans = (*cause, *span_of("related", sign.other, f"sends zeros to {whose}"))
    because = f"every path from the loss to {whose} leads through it, and in {sign.count} steps their gradients were "
    because += f"{exactly}"
    return Finding(*Proof.STEPS.at(0.93), title, why, spans, remedies=_let_through(sign, code, whose), because=because)


def _unregistered(sign: Sign, code: str, whose: str) -> Finding:
    """An operator of a library of the user's own that has a kernel and no derivative."""
    gets, they = in_number(len(sign.parameters) != 1, "get they")
    title = "register the derivative of the operator: `torch.library.register_autograd`"
    note = "Its backward kernel is called then. Training works as with the same computation in PyTorch's own operators."
    headline = f"`{code}` has no derivative: {whose} {gets} no gradient"
    text = "The operator has a kernel and none for autograd, so its result keeps no way back. PyTorch warns once, in "
    text += "backward, and goes on with the rest of the loss."
    spans = of_sign(sign, "an operator without an autograd kernel: the graph ends here", f"gives {whose} nothing")
    remedies = (Remedy("register_autograd", title, "display", note),)
    because = f"every path from the loss to {whose} leads through it; in {sign.count} steps {they} had no gradient"
    return Finding(*Proof.STEPS.at(0.94), headline, text, spans, remedies=remedies, because=because)


def _at_rest(program: Program, sign: Sign, code: str, whose: str) -> Finding:
    """The loss has no slope where all parameters of an optimizer began, and they have not been moved since."""
    zeros = first_sign(program.signs, ALL_ZEROS)
    label = "the gradients that it sends back cancel" if sign.facts["rest"] == "cancels" else "sends no gradient on"
    weight = likely(0.8)  # that nothing is trained is measured; that the first step should train something is not
    title = f"nothing is trained: every gradient of {whose} is exactly zero"
    text = f"The loss has no slope where the parameters begin: by `{code}` each small change, to either side, adds the "
    text += "same. A distance between equal values is like that, and a divergence of a policy from itself. Zero "
    text += "gradients move nothing, so it stays like that. Look at the terms that should give a gradient and do not."
    spans = (*span_of("cause", sign.stack, label), *span_of("related", sign.other, f"sends zeros to {whose}"))
    because = f"in each of {zeros.count if zeros else sign.count} steps, the first one included, every gradient was "
    because += "exactly zero; a trial moved the parameters, and only then the loss had a gradient"
    return Finding(*weight, title, text, spans, because=because)


def _rounding(sign: Sign, code: str, whose: str) -> Finding:
    """What the loss uses of a value is the same for all of its values: measured, as no operation says it by itself."""
    cancels = sign.facts["rounding"] == "cancels"
    what = "the gradients that come back to it cancel" if cancels else "the gradient that it passes on is zero"
    how = "in jumps" if sign.facts["jumps"] else "by rounding"
    weight = likely(0.9)  # that there is no gradient is measured; that there should be one is not
    title = f"`{code}` cancels the gradient: only rounding reaches {whose}"
    text = "What the loss uses of this is the same for every input. The squares of a normalised vector add up to 1, "
    text += "and so do the shares of a softmax; a weight divided by itself is 1. Adam divides each gradient by its "
    text += "size: its steps are then as large as any, in random directions."
    spans = of_sign(sign, f"{what}, but for rounding", f"sends rounding alone to {whose}")
    because = f"at two steps a move by the whole size of {whose} moved the loss {how} alone; after a small move the "
    because += "gradient was an unrelated one"
    return Finding(*weight, title, text, spans, because=because)


def _flat(sign: Sign, code: str, whose: str, bound: str) -> Finding:
    """Every value lies where the function is flat, and has done so from the first step on."""
    label = f"every value is {bound}: no gradient passes"
    why = f"All values that go in are {bound}, where the result is a constant. Zero gradients move nothing, so it "
    why += "stays like that. Look at the sign and the size of these values, or at the margin."
    if bound == "zeros" and sign.facts["both"]:
        label = "both factors are zero in every element: no gradient passes"
        why = "The gradient of each factor is multiplied by the other, and both are zero. Zero gradients move nothing, "
        why += "so it stays like that. Let one of them begin with random numbers."
    elif bound == "zeros":
        label = "the other factor is zero in every element"
        why = "The gradient is multiplied by the other factor, which was zero in every element. Check how that factor "
        why += "is computed: in a group of one, the difference from the group's mean is always zero."
    weight = likely(0.85)  # that it has been so is seen; that it is not meant to begin so is not
    title = f"`{code}` stops the gradient of {whose}, from the first step on"
    spans = (*span_of("cause", sign.stack, label), *span_of("related", sign.other, f"sends zeros to {whose}"))
    because = f"in each of {sign.count} steps, the first one included, every gradient of {whose} was exactly zero"
    return Finding(*weight, title, why, spans, because=because)


def _over_one(op: str, dim: int | None) -> tuple[str, str]:
    """What is said of an operation over a single element: at its place, and why its result is a constant."""
    if dim is None:
        layer = "LayerNorm" if "LayerNorm" in op else "GroupNorm"
        return f"{layer} normalises groups of one element", (
            "A group of one element is its own mean, so its normalised value is zero for every input. Normalise over "
            "a dimension that has several elements."
        )
    size = f"dimension {dim} has size 1"
    begins = f"Dimension {dim} has size 1: "
    if "Softmax" in op:
        return size, (
            f"{begins}a softmax over it is 1 for every input, so its derivative is zero. Take it over the dimension "
            "that is to be weighed, or use a sigmoid for a single gate."
        )
    less = "a value minus its own mean or log-sum-exp is zero"
    own = less if op.startswith("Sub") else "a value divided by its own size is 1 or -1"
    return size, f"{begins}{own} for every input. Normalise over a dimension that has several elements."


def _scale_alone(sources: SourceTexts, sign: Sign, code: str, whose: str, scale: Frame) -> Finding:
    """Of each element the rounding lets nothing pass; what arrives is the gradient of a scale."""
    zeros = float(sign.facts.get("zeros", 0.0))
    share = f"; at least {100 * zeros:.0f} % of each gradient were exactly zero" if zeros >= MOSTLY else ""
    spans = (
        *span_of("cause", sign.stack, "its derivative is zero everywhere: no gradient passes"),
        span("related", scale, "all that reaches them comes through this"),
        *span_of("related", sign.other, f"sends the gradient of the scale to {whose}"),
    )
    title = f"`{code}` stops the gradient of each element of {whose}"
    text = "Rounding and signs are flat between their jumps, so PyTorch defines their derivative as zero. A scale "
    text += "computed from the value still passes a gradient to it. A straight-through estimator sends the gradient "
    text += "past the rounding: `x + (torch.round(x) - x).detach()`."
    remedies = _let_through(sign, code, whose)
    because = f"every path from an element to the loss leads through it, except through `{code_at(sources, scale)}`"
    because += share
    return Finding(*Proof.NODE.at(0.93, zeros >= MOSTLY), title, text, tuple(spans), remedies=remedies, because=because)


def _is_draw(sign: Sign) -> bool:
    return str(sign.facts.get("op", "")).startswith(("Normal", "Bernoulli", "Poisson"))


def _let_through(sign: Sign, code: str, whose: str) -> tuple[Remedy, ...]:
    """Send the gradient past a rounding, or through a normal draw."""
    if str(sign.facts.get("op", "")).startswith("Normal") and (drawn := innermost_user(sign.stack)) is not None:
        note = f"the draw is the same number, written as a function of its parameters: {whose} learn by it"
        return remedy_at(drawn, "rsample", "draw with `rsample()`", "unsafe", note)
    if sign.facts.get("op") not in _ROUNDS and sign.kind != "scale-alone":
        return ()
    note = f"the gradient of {whose} is then as if `{code}` had changed nothing"
    title = "send the gradient straight through it"
    return remedy_at(innermost_user(sign.stack), "straight_through", title, "unsafe", note)


# What is told of an input that the graph of an output does not lead to.


@dataclass(frozen=True)
class Told:
    """The places, the sentence of the explanation, and the one of evidence."""

    marks: tuple[Span, ...]
    why: str
    because: str


def told_of(name: str, reason: Reason) -> Told:
    """``name`` is the input as the program calls it, or ``this input``."""
    match reason:
        case Beside(made):
            label = f"{name} is a new tensor, on which the output does not depend"
            return Told(
                (span("cause", made, label),),
                f"At {where(made)} it is computed from a tensor that the output depends on. The output was computed "
                "from that tensor, not from this one. Ask for the gradient of that tensor and take the same part of "
                "it; or compute the output from this one.",
                f"{name} and the output were computed from one tensor, neither of them from the other",
            )
        case TakenOut(cut, place) if cut.reason == "no-grad":
            return _unrecorded(name, cut, place)
        case TakenOut(cut, place):
            return Told(
                (span("cause", place, f"{as_called(cut.op)} takes the values of {name} out of the graph"),),
                f"At {where(place)} {as_called(cut.op)} takes its values out of the graph, and the output is computed "
                "from these: for autograd they are constants.",
                f"the output was computed from what {as_called(cut.op)} gave at {where(place)}",
            )
        case FlaggedLate(flagged, taken):
            return Told(
                (
                    span("cause", flagged, f"{name} requires gradients from here on"),
                    span("related", taken, f"{name} goes into the output here, and requires none yet"),
                ),
                f"It went into the output at {where(taken)}, and was set to require gradients after that, at "
                f"{where(flagged)}. What is computed from a tensor has an edge to it only if it required gradients "
                "then.",
                "the flag was set after the tensor had gone into the output",
            )


def _unrecorded(name: str, cut: Cut, place: Frame) -> Told:
    """The input goes into an operation while gradient recording is off."""
    switch, kind = innermost_user(cut.switch), cut.switch_kind or "no_grad"
    off = f"Gradient recording is switched off at {where(switch)} ({kind}). " if switch is not None else ""
    marks = span_of("cause", switch, "gradient recording is switched off here")
    role: Role = "related" if marks else "cause"
    return Told(
        (*marks, span(role, place, f"{as_called(cut.op)} takes {name} in here, and is not recorded")),
        f"{off}{as_called(cut.op)} at {where(place)} takes it in while nothing is recorded: what it gives to the "
        "output is a constant for autograd.",
        f"the output was computed from what {as_called(cut.op)} gave at {where(place)}, under {kind}",
    )


def of_another(another: OfAnother) -> tuple[tuple[Span, ...], str]:
    """One list of inputs for two outputs, of which this input is in one."""
    also = f"The output depends on {folded(another.reached)}, "
    place = innermost_user(another.other.stack)
    marks = span_of("related", place, f"this output depends on `{another.name}`")
    return marks, (
        f"{also}asked for in the same call. `{another.name}` is a part of another output, differentiated at "
        f"{where(place)}: if this output is not to depend on it, its derivative here is zero."
    )


def of_unread(part: str, built: Frame) -> tuple[tuple[Span, ...], str]:
    """A part of the model that is built, and that nothing reads."""
    return (
        (span("cause", built, f"nothing in the program reads `{part}` after this"),),
        f"`{part}` is built at {where(built)} and takes no part in anything: use it, or leave it out.",
    )


# Telling parameters of an inner loss that no outer loss reaches: its gradient was taken without ``create_graph``.


def inner_only(program: Program, sign: Sign) -> Finding | None:
    """The finding for an ``inner-only`` sign; None where the inner gradient does not enter the outer loss."""
    grad, outer = program.evidence.event(sign.event), program.evidence.event(sign.facts["outer"])
    frame = innermost_user(sign.stack)
    call = bindings.call_at(program.sources, frame)
    if frame is None or call is None or grad is None or outer is None or _is_chosen(call):
        return None
    if entered(program.sources, grad, outer, innermost_user(outer.stack)) is Entered.UNSEEN:
        return None
    whose = folded(sign.parameters)
    get, are, they, them = in_number(len(sign.parameters) != 1, "get were they them")
    name = optimizer_of(program.optimizers, sign)
    code = short_code(program.sources, frame)
    title = f"`{code}` lacks `create_graph=True`: {whose} {get} no gradient from the outer loss"
    text = f"The outer loss depends on {them} only through this gradient, which has no graph without "
    text += "`create_graph=True`."
    spans = (
        span("cause", frame, "this gradient has no graph"),
        *span_of("related", sign.other, f"the outer loss does not reach {whose}"),
    )
    because = f"in {sign.count} steps of {name} {whose} {are} in the graph of the inner loss, no backward call reached "
    because += f"{them}, and {they} got no gradient"
    return Finding(*Proof.STEPS.at(0.93), title, text, spans, because=because)


def _is_chosen(call: ast.Call) -> bool:
    """Whether the program decides on the order as it runs: ``create_graph=second_order``."""
    return any(k.arg in ("create_graph", None) and not isinstance(k.value, ast.Constant) for k in call.keywords)


# Telling a copy of parameters that has kept its graph: the distance from it sends them no gradient.


def kept_reference(program: Program, sign: Sign) -> Finding | None:
    """The finding for an ``own-copy`` sign; None where no line of the user's made the copy."""
    frame = innermost_user(sign.stack)
    if frame is None:
        return None
    whose = folded(sign.parameters) or "the parameters"
    names = bound_names(program.sources, frame)
    kept = f"`{names[0]}`" if len(names) == 1 else "a copy"
    code = short_code(program.sources, frame)
    calls = [Frame(**f) for f in sign.facts.get("backward", ())]
    weight = likely(0.95)  # that the derivatives cancel is seen; that they were not meant to is not
    title = f"{kept} is not detached: the distance to it gives {whose} no gradient"
    text = "The copy was made before a step and still has its graph. The gradient through the parameter and the one "
    text += "through its copy cancel, so this part of the loss trains nothing."
    spans = (
        span("cause", frame, "copies the values together with their graph"),
        *span_of("created", sign.other, "both sides lead to the same parameters: 1 - 1 = 0"),
        *(span("consumed", f, "the gradients of the two sides cancel here") for f in calls),
    )
    note = f"the copy is a constant, and the distance from it moves {whose}"
    remedies = remedy_at(frame, "detach_expression", f"detach {f'`{code}`' if code else 'the copy'}", "unsafe", note)
    because = "one side of the difference is a copy from before the latest step, the other one is from after it; "
    because += f"nothing but copies and views lies between both and {whose}"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


# Telling a distance of parameters from themselves.


def compared_with_itself(program: Program, sign: Sign) -> Finding | None:
    """The finding for an ``own-self`` sign; None where no list of parameters is kept for it: what the two sides are
    called may be two layers that are one by choice, or a reference that is given copies later."""
    frame = innermost_user(sign.stack)
    kept = _kept_itself(program.sources, frame) if frame is not None else None
    if frame is None or kept is None:
        return None
    whose = folded(sign.parameters) or "the parameters"
    code = short_code(program.sources, frame) or "the difference"
    calls = [Frame(**f) for f in sign.facts.get("backward", ())]
    note = f"the distance is that from the values of {whose} there"
    weight = likely(0.95)  # that both sides are one is seen; that one was meant as a copy is what a distance is for
    title = f"`{code}` compares parameters with themselves: it is zero, and trains nothing"
    text = "A step changes parameters in place, and with them every list that holds them. A penalty on the way from "
    text += "where they were needs copies of their values."
    spans = (
        span("cause", kept, "keeps the parameters themselves, no copies"),
        span("related", frame, "both sides are the same parameters: 0"),
        *(span("consumed", f, "this part of the loss gives no gradient") for f in calls),
    )
    because = f"in {sign.count} losses both sides of this difference were the same tensors, {whose}"
    return Finding(*weight, title, text, spans, remedies=_copied(program.sources, kept, note), because=because)


def _copied(sources: SourceTexts, kept: Frame, note: str) -> tuple[Remedy, ...]:
    """``list(net.parameters())`` as ``[p.detach().clone() for p in net.parameters()]``."""
    entry, value = None, bindings.expression_at(sources, kept)
    if value is not None:
        entry = entry_of_parameters(value)
    one = "{it}.detach().clone()"
    if isinstance(entry, ast.Name):
        kept, pairs = bindings.frame_of(sources, kept.file, entry), [["{it}", one]]
    else:
        copied = "[p.detach().clone() for p in {it}]"
        pairs = [["dict({it})", "{name: p.detach().clone() for name, p in {it}}"], ["{_}({it})", copied]]
    return remedy_at(kept, "rewrite", "keep copies of the values", "unsafe", note, pairs=pairs)


def _kept_itself(sources: SourceTexts, frame: Frame) -> Frame | None:
    """The one list or dictionary of parameters that is read where they are compared, or given to the function that
    does so, and that no optimizer is given; None if its name is also given what another call makes, copies perhaps."""
    scope = bindings.scope_at(sources, frame)
    read, optimizers = _words(scope), set[str]()
    for file, call in bindings.everywhere(sources, ast.Call):
        at = bindings.frame_of(sources, file, call)
        given = {word for a in given_to(call) for n in (a, written_out(sources, at, a)) for word in _words(n)}
        if last_word(call.func) == getattr(scope, "name", None):
            read |= given
        elif "optim" in bindings.text_of(call.func):
            optimizers |= given
    found: list[tuple[Frame, set[str], bool]] = []
    for file, n in bindings.everywhere(sources, ast.Assign):
        names = {last_word(t) for t in n.targets} & read - optimizers
        value = written_out(sources, bindings.frame_of(sources, file, n), n.value) if names else n.value
        if names and any(each(value, ast.Call)):
            found.append((bindings.frame_of(sources, file, n.value), names, entry_of_parameters(value) is not None))
    kept = only([one for one in found if one[2]])
    if kept is None or any(names & kept[1] for _, names, itself in found if not itself):
        return None
    return kept[0]


def _words(node: ast.AST) -> set[str]:
    """The names in a piece of code, and the last words of its attributes and entries."""
    return plain_names(node) | {last_word(n) for n in each(node, ast.Attribute, ast.Subscript)}


# Telling a detach whose result is dropped: the value goes on with its graph.


def dropped_detach(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``detach-dropped`` sign; None where the program has a method ``detach`` of its own."""
    frame, name = innermost_user(sign.stack), str(sign.facts["name"])
    own = any(n.name == "detach" for _, n in bindings.everywhere(program.sources, ast.FunctionDef))
    call = bindings.call_at(program.sources, frame)
    if frame is None or call is None or own or bindings.text_of(call) != f"{name}.detach()":
        return None
    whose = folded(sign.parameters)
    calls = [Frame(**f) for f in sign.facts["backward"]]
    note = f"`{name}` is a constant, and the loss trains {whose} by its other terms alone"
    weight = likely(0.94)  # that the value keeps its graph is seen; that it is to lose it is what the call says
    title = f"`{name}.detach()` has no effect: its result is dropped, and `{name}` keeps its graph"
    text = f"`detach()` returns a new tensor. The loss still uses the old one and trains {whose} through it as well."
    spans = (
        span("cause", frame, "the result is dropped"),
        *span_of("related", sign.other, f"still uses `{name}` and its graph"),
        *(span("consumed", f, f"sends a gradient through `{name}`") for f in calls),
    )
    remedies = remedy_at(frame, "rewrite", "keep the result", "unsafe", note, pairs=[["{it}", f"{name} = {{it}}"]])
    because = f"in {sign.count} losses `{name}` had its graph after the call, and led to {whose}"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


# Telling an advantage that is differentiated: the policy's part of the loss moves the value that it starts from.

MOST_CAUSES = 3
"""Places that a reader is sent to."""


def trained_baseline(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``baseline-trained`` sign; None where no line of the user's made the product."""
    products = sorted((p for p in sign.facts["products"] if p["frame"]), key=lambda p: int(p["frame"][0]["line"]))
    factors = [factor_at(program.sources, Frame(**p["frame"][0]), int(p["operand"])) for p in products]
    if not factors:
        return None
    whose = folded(sign.parameters) or "the value network"
    known = [f for f in factors if f is not None]
    frames = known or [Frame(**p["frame"][0]) for p in products]
    code = code_at(program.sources, known[0]) if known else "the factor of the log-probability"
    named = f"`{code}`" if known else code
    calls = [Frame(**f) for f in sign.facts.get("backward", ())]
    own = sign.facts.get("own")
    if own is None:
        graph, title = "value", f"{named} is not detached: the policy loss trains {whose} as well"
        said = "still has the graph of the value it was computed from. So the policy loss trains this value too, "
        said += "against the loss that fits it."
        note = f"the policy loss no longer trains {whose}; the loss that fits the value still does"
        because = f"the value that the same loss fits is subtracted in {named}; in {sign.count} of {sign.count} such "
        because += f"calls both terms lead to {whose}"
    else:
        graph, title = "policy", f"{named} is not detached: both it and the log-probability train {whose}"
        said = "depends on the policy and still has its graph. So the policy also learns to change the number itself."
        note = f"the log-probability alone trains {whose}"
        because = f"both factors lead to {whose}; {named} leads to {folded(own) or 'a value'} too, which another "
        because += "optimizer's loss fits"
    label = f"multiplies a log-probability, and still carries the graph of the {graph}"
    weight = likely(0.9)  # whom the loss trains is seen; what was meant as a constant is not
    text = f"How much a policy learns from an action is a constant of its loss. Here that number {said}"
    spans = (
        *(span("cause" if n < MOST_CAUSES else "related", f, label) for n, f in enumerate(frames)),
        *span_of("related", sign.other, "fits the same value"),
        *(span("consumed", f, "both gradients are added up here") for f in calls),
    )
    remedies = _remedies(program.sources, known, note) if len(known) == len(factors) else ()
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def factor_at(sources: SourceTexts, frame: Frame, operand: int) -> Frame | None:
    """The left (0) or right factor of the product that is written there."""
    for node in each(bindings.tree(sources, frame.file), ast.BinOp):
        if isinstance(node.op, ast.Mult):
            at = bindings.frame_of(sources, frame, node)
            if at.extent == frame.extent:
                return bindings.frame_of(sources, frame, (node.left, node.right)[operand])
    return None


def _remedies(sources: SourceTexts, factors: list[Frame], note: str) -> tuple[Remedy, ...]:
    edits = [edit_at("detach_expression", f, constant=True) for f in factors]
    title = f"detach `{code_at(sources, factors[0])}`" + " in each product" * (len(edits) > 1)
    return tuple(together(edits, title, "unsafe", note))


# Telling gradients that were to add up over several batches, and are cleared before each.


def thrown_away(sources: SourceTexts, optimizers: list[Optimizer], signs: list[Sign]) -> Finding | None:
    """The finding for ``cleared-while-collecting`` signs; None where the source does not say that a step is made for
    several passes, or may use their gradients itself."""
    found: list[tuple[Sign, Frame, Frame, Frame]] = []
    behind = False
    for sign in signs:
        clear, call = innermost_user(sign.stack), innermost_user(sign.other)
        step = [Frame(**f) for f in sign.facts["step"]]
        if clear is None or call is None or not step:
            continue
        hooked, uneven = bool(sign.facts.get("hooked")), bool(sign.facts.get("uneven"))
        if waits_for_a_count(sources, step, [f for f in sign.other if f.user]):
            if hooked or gradients_are_given(sources):
                continue
        else:
            used = hooked or gradients_are_read(sources) or gradients_between(sources, call, clear)
            if used or uneven or not all(behind_inner_loop(sources, s, step) for s in (sign.stack, sign.other)):
                continue
            behind = True
        if not found or found[0][0].facts["calls"] == sign.facts["calls"]:
            found.append((sign, clear, call, step[-1]))
    if not found:
        return None
    sign, calls_at = found[0][0], [c for _, _, c, _ in found]
    many, one, uneven = int(sign.facts["calls"]), len(found) == 1, bool(sign.facts.get("uneven"))
    steps_by = "a step that waits for several" if uneven else f"a step every {many} calls"
    meant = "" if behind else f", and {steps_by} is to use the sum"
    names = listing(optimizer_of(optimizers, s) for s, *_ in found)
    clears, steps = [c for _, c, _, _ in found], [s for *_, s in found]
    remedies: tuple[Remedy, ...] = ()
    # What is not cleared before each of its calls any more keeps what the calls of others give it, too.
    rest = listing(optimizer_of(optimizers, s) for s, *_ in found if s.facts.get("others"))
    more = f"; for {rest}, first call the other loss's `backward()` with `inputs=`, or that is in the sum too"
    alone = [n for n, (s, *_) in enumerate(found) if not s.facts.get("others")]
    if alone and all(name_of(optimizers, s) for s, *_ in found):
        remedies = moved_clears(sources, [clears[n] for n in alone], [steps[n] for n in alone])
        remedies = tuple(replace(r, note=r.note + more) for r in remedies) if rest else remedies
        if behind:
            left = "whether a step for each call is meant, or one by the sum of all, no run tells"
            remedies = tuple(replace(r, open=left) for r in (*_steps_at(sources, steps, calls_at), *remedies))
    weight = likely(0.94)  # what is thrown away is seen; that the calls were to add up the source alone suggests
    calls = "backward call" if uneven else f"of {many} backward calls"
    title = f"{names} {'is' if one else 'are'} cleared before each {calls}: only the last one counts"
    text = f"`backward()` adds to `.grad`{meant}. `zero_grad()` before each call throws away what the calls before it "
    text += "have added."
    spans = (
        *(span("cause", c, "throws away the gradients of the calls before") for c in clears),
        *(
            span("related", c, f"runs {'up to ' * uneven}{many} times for each step")
            for n, c in enumerate(calls_at)
            if c not in calls_at[:n]
        ),
        *(span("related", s, "uses the gradients of the last call alone") for s in steps),
    )
    often = f"{'up to ' * uneven}{many} times"
    because = f"before each of {sign.count} steps the same place cleared the gradients {often}, and backward "
    because += f"followed {'each time' if uneven else often}"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def moved_clears(sources: SourceTexts, clears: list[Frame], steps: list[Frame]) -> tuple[Remedy, ...]:
    moved = []
    for clear, step in zip(clears, steps, strict=True):
        own = "" if clear.in_function_of(step) else spelled(sources, "", step, [step]) or "?"
        moved.append((clear, f"{own}.zero_grad()" if own else code_at(sources, clear), step))
    note = "each step uses the sum of all gradients since the step before"
    return _moved(moved, "clear the gradients after the step", note)


def _steps_at(sources: SourceTexts, steps: list[Frame], calls: list[Frame]) -> tuple[Remedy, ...]:
    if not all(s.in_function_of(c) for s, c in zip(steps, calls, strict=True)):
        return ()
    moved = [(s, code_at(sources, s), c) for s, c in zip(reversed(steps), reversed(calls), strict=True)]
    return _moved(moved, "step after each of these calls", "each call's gradients are used by a step of their own")


def _moved(moved: list[tuple[Frame, str, Frame]], title: str, note: str) -> tuple[Remedy, ...]:
    """Statements that go behind others, as the code that they are there; nothing where one of them is no call."""
    edits: list[dict[str, Any]] = []
    for statement, code, behind in moved:
        if statement.file != behind.file or not isinstance(parse_expression(code), ast.Call):
            return ()
        edits.append(edit_at("delete_statement", statement))
        edits.append(edit_at("add_statement", behind, statement=code, before=False))
    return (Remedy("several", title, "unsafe", note, {"edits": edits}),)
