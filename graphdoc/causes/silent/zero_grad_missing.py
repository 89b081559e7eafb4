"""GD705: nobody clears the gradients between two steps."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign
from graphdoc.finding import Finding, Remedy
from graphdoc.program.gradient_reads import gradients_are_given
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import spelled
from graphdoc.program.proof import likely, name_of, of_steps, signs
from graphdoc.program.scaler_calls import is_guarded
from graphdoc.program.spans import in_this_order, innermost_user, place, span_of
from graphdoc.story.wording import first_told, folded, opening, optimizer_of

PAGE = Page(
    code="GD705",
    title="Gradients are never cleared: each step uses the sum of all gradients so far",
    families=("silent",),
    what_happened="""\
The training loop calls `backward()` and `step()`, and nothing clears the gradients in between: `zero_grad()` is
missing, stands before the loop, or clears another optimizer or module. Each step then uses the gradients of all
the iterations before it as well.

With two optimizers the same happens where one is cleared right after its step: the other one's loss, a generator's,
goes through its parameters and leaves gradients there, and its next step uses them too.""",
    why="""\
`backward()` adds to `.grad`; it does not replace it. That allows to accumulate gradients over several backward calls
before one step. Where one accumulation ends, only the program knows.""",
    example="""\
optimizer.zero_grad()
for x, y in loader:
    loss_fn(model(x), y).backward()
    optimizer.step()""",
    use_instead="""\
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()""",
    fix_safety="""\
Unsafe, because every step but the first changes. With gradient accumulation `zero_grad()` belongs after the step, not
in front of each `backward()`.""",
    not_this="""\
- The gradients are cleared between `backward()` and `step()`: `cleared-before-step`.
- The program keeps `.grad` itself and goes on using it: `grad-aliased`.""",
    references=("torch.optim.Optimizer.zero_grad", "torch.Tensor.backward"),
)


_OTHER_LOSS = (
    "the loss of another optimizer reaches its parameters before that call: whether it is to train them, no run tells"
)


# No run tells whether the loss that another optimizer is cleared for, and steps by, is to train this one too.
_NOTE = "another optimizer is cleared for that loss and steps by it; if it is to train both, clear both before it"
_ONE_STEP_LESS = (Remedy("one_step_less", "leave out the second step", "display", _NOTE),)


def recognise(program: Program) -> Finding | None:
    """Before each further step a backward call found the gradients just as the step before had used them."""
    told = first_told(program, ("never-cleared", _told), ("left-over", _left_over), ("used-twice", _used_twice))
    # Where gradients are given, a step uses what was put there, whatever backward has added before; but not in a tensor
    # that was the same all the time, and that nothing else keeps.
    own = any(s.facts.get("own") for s in signs(program.signs, "never-cleared"))
    return None if told is None or gradients_are_given(program.sources, in_place=own) else told


def _told(program: Program, sign: Sign) -> Finding:
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters)
    part = [Frame(**f) for f in sign.facts.get("clear", ())]
    adds = "not cleared: each step uses the earlier ones too" if name.startswith("`") else "never cleared: they add up"
    spans = (
        *span_of("cause", part, f"clears other parameters of {name} alone"),
        *span_of(
            "related" if part else "cause", sign.stack, "adds to the gradients that the step before has used already"
        ),
        *span_of("related", sign.other, f"{name} uses the sum"),
    )
    title = f"the gradients of {whose if part else name} are {adds}"
    text = "`backward()` adds to `.grad`. Between those steps nothing sets its gradients to None or zero."
    remedies = tuple(_remedies(program, sign, sign.other, bool(sign.facts.get("closure") or sign.facts.get("between"))))
    because = f"before each of {sign.count} steps in a row, backward found in {whose or '.grad'} the gradients of the "
    because += "step before unchanged"
    return Finding(0.95, of_steps(sign), title, text, tuple(spans), remedies=remedies, because=because)


def _left_over(program: Program, sign: Sign) -> Finding | None:
    """The optimizer is cleared, and another one's loss fills its gradients again before its own backward call."""
    name = optimizer_of(program.optimizers, sign)
    clear = [Frame(**f) for f in sign.facts["clear"]]
    step = [Frame(**f) for f in sign.facts["step"]]
    if in_this_order(clear, sign.other, sign.stack):
        return None  # cleared for both losses, of which the first step had one alone
    weight = likely(0.95)  # what each step uses is seen; that the other loss is not to train them is not
    title = f"{name} also uses the gradients of another optimizer's loss"
    text = f"{opening(name)} is cleared too early: another optimizer's loss reaches its parameters after that, and "
    text += "`backward()` adds to what is there."
    spans = (
        *span_of("cause", sign.stack, f"adds to what the other loss has left in {name}"),
        *span_of("related", clear, f"clears {name}"),
        *span_of("related", sign.other, "fills the same gradients again"),
        *span_of("related", step, f"{name} uses the sum"),
    )
    remedies = tuple(_remedies(program, sign, step, early=True))
    because = f"the first step of {name} used its own loss alone; each time the other optimizer had stepped, "
    because += f"{sign.count} times in a row, the next step used what its loss had left as well"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _used_twice(program: Program, sign: Sign) -> Finding | None:
    """The optimizer steps several times, by two losses or in a loop, and is cleared before the first step alone."""
    if any(s.optimizer == sign.optimizer for s in signs(program.signs, "past-scaler")):
        return None  # the second step is the fault, whatever it uses
    name, one = optimizer_of(program.optimizers, sign), sign.facts.get("one")
    step = [Frame(**f) for f in sign.facts["step"]]
    clear = [Frame(**f) for f in sign.facts["clear"]] if one else []
    others = sign.facts.get("others") and not one
    return Finding(
        *likely(0.95),  # what each step uses is seen; that the second is not to use all of it is not
        f"{name} steps again by gradients that it has used" if one else f"{name} uses the gradients of one loss twice",
        "A step has used them already, and nothing clears them before the next `backward()`, which adds to what is "
        "there.",
        (
            *span_of("cause", sign.stack, "adds to what the step before has used"),
            *span_of("related", clear, f"clears {name}, once for several steps"),
            *span_of("related", [] if one else sign.other, "computes what that step uses"),
            *span_of("related", step, f"{name} uses the sum"),
        ),
        remedies=_ONE_STEP_LESS if others else tuple(_remedies(program, sign, step, early=not one)),
        because=f"before {sign.count} steps, between others that begin anew, backward found the gradients of "
        "the step before unchanged",
    )


def _remedies(program: Program, sign: Sign, stepped: list[Frame], early: bool) -> list[Remedy]:
    """Clear the gradients after the step at the end of ``stepped``, or ``early``: before the backward call."""
    name = name_of(program.optimizers, sign)
    backward, step = innermost_user(sign.stack), innermost_user(stepped)
    if backward is None or step is None:
        return []
    before = early or is_guarded(program.sources, step, backward)
    at = backward if before else step
    own = spelled(program.sources, name, at, [step])
    if own is None:
        return []
    where = "before this backward call" if before else "after the step"
    args = {"place": place(at), "statement": f"{own}.zero_grad()", "before": before}
    note = f"each step of `{name or own}` uses the gradients of its own {'loss' if early else 'iteration'}"
    # The gradients of that loss are cleared with the old ones.
    left = _OTHER_LOSS if sign.facts.get("between") else ""
    return [Remedy("add_statement", f"call `{own}.zero_grad()` {where}", "unsafe", note, args, left)]
