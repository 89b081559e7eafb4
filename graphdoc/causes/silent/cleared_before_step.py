"""GD710: the gradients are cleared between the backward call and the step."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import LAST_ALONE, Frame, Sign
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program import bindings
from graphdoc.program.gradient_reads import gradients_are_read, gradients_between
from graphdoc.program.observed import Program
from graphdoc.program.proof import first_sign, likely, of_steps, signs
from graphdoc.program.remainders import waits_for_a_count
from graphdoc.program.spans import in_this_order, innermost_user, of_sign, place, span, span_of
from graphdoc.story.gradients import moved_clears, thrown_away
from graphdoc.story.wording import first_told, folded, optimizer_of

PAGE = Page(
    code="GD710",
    title="Gradients are cleared before the step can use them",
    families=("silent",),
    what_happened="""\
`zero_grad()` stands between `backward()` and `step()`. The optimizer finds no gradient, so its step leaves every
parameter as it is. The loss is computed, printed and never falls.

Where gradients are collected over several batches, and a step is made every fourth time, or once a count of samples is
reached, `zero_grad()` before each `backward()` does the same to all batches but the last one. Where one optimizer steps
by two losses, it does the same to the first loss when it stands between their `backward()` calls.

Or an engine takes the gradients of each call out of `.grad`, and begins anew at each instead of adding them up.
""",
    why="""\
An optimizer's step uses what `.grad` holds at that moment, and leaves out parameters whose `.grad` is None. PyTorch
cannot know that there has been a gradient.""",
    example="""\
loss.backward()
optimizer.zero_grad()
optimizer.step()""",
    use_instead="""\
optimizer.zero_grad()
loss.backward()
optimizer.step()""",
    fix_safety="""\
Unsafe, because the parameters are trained afterwards. Move `zero_grad()` before `backward()`, or after `step()`;
where a step uses several backward calls, behind the step.""",
    not_this="""\
- Nothing clears the gradients: `zero-grad-missing`.
- The optimizer never steps: `step-missing`.""",
    references=("torch.optim.Optimizer.zero_grad", links.OPTIM),
)


_CLEARS = ".zero_grad"


def recognise(program: Program) -> Finding | None:
    """Each step from the first on found no gradient, because the optimizer had been cleared behind the backward; or
    found that of one backward call of several, because it was cleared before each, or always behind another."""
    sources, optimizers = program.sources, program.optimizers
    sign = first_sign(program.signs, "cleared-early")
    if sign is not None:
        return _told(program, sign)
    collecting = signs(program.signs, "cleared-while-collecting")
    told = thrown_away(sources, optimizers, collecting) if collecting else None
    return told or first_told(program, ("thrown-away", _one_of_several), (LAST_ALONE, _last_alone))


def _one_of_several(program: Program, sign: Sign) -> Finding | None:
    """The step uses another call's gradients; those of this one are cleared each time."""
    sources, clear, backward = program.sources, innermost_user(sign.stack), innermost_user(sign.other)
    if clear is None or backward is None or gradients_are_read(sources) or gradients_between(sources, backward, clear):
        return None
    call = bindings.call_at(sources, backward)
    if call is not None and not bindings.text_of(call.func).endswith("backward"):
        return None  # a library calls backward within, and knows what for
    name = optimizer_of(program.optimizers, sign)
    note = f"{name} updates {folded(sign.parameters)} by the gradients of this loss, too"
    steps = [Frame(**f) for f in sign.facts.get("step", ())]
    step = innermost_user(steps)
    late = step is not None and in_this_order(sign.stack, steps, sign.other)
    if step is not None and late:  # it comes too late in its pass, and the next pass clears first
        args = {"step": place(step), "backward": place(backward), "inputs": False}
        remedy = Remedy("steps_last", "step after that call", "unsafe", note, args)
    else:
        args = {"place": place(clear), "before": place(backward)}
        remedy = Remedy("move_statement", "clear the gradients before that call", "unsafe", note, args)
    weight = likely(0.93)  # that none is used is seen; that this loss was meant to train is not
    title = f"no step of {name} uses the gradients of this backward call"
    text = f"It gives gradients to what {name} trains, and to nothing else. They are cleared before each step."
    spans = (
        *span_of("cause", steps if late else [], "steps before there are gradients of that loss"),
        *span_of("related" if late else "cause", sign.stack, "throws away the gradients of that call"),
        *span_of("related", sign.other, "computes them"),
    )
    because = f"it was called {sign.count} times, and each time `zero_grad()` came before the next step"
    return Finding(*weight, title, text, spans, remedies=(remedy,), because=because)


def _last_alone(program: Program, sign: Sign) -> Finding:
    """Measured: somebody takes the gradients of each call away, and the step has those of the last one."""
    name, calls = optimizer_of(program.optimizers, sign), sign.facts["calls"]
    weight = likely(0.93)  # that the others are not used is measured; that they should be is not
    text = "What the earlier calls have given is taken out of `.grad`, and is in no gradient that the step uses. Add "
    text += "each call's gradients to what is kept, and begin anew after the step only."
    sources, steps, clear = program.sources, [Frame(**f) for f in sign.facts["step"]], innermost_user(sign.stack)
    call, step = bindings.call_at(sources, clear) if clear is not None else None, innermost_user(steps)
    remedies: tuple[Remedy, ...] = ()
    if clear is not None and step is not None and call is not None and bindings.text_of(call.func).endswith(_CLEARS):
        text = "`zero_grad()` throws away what the earlier calls have given. Call it after a step only."
        if waits_for_a_count(sources, [f for f in steps if f.user], [f for f in sign.other if f.user]):
            remedies = moved_clears(sources, [clear], [step])
    spans = (
        *of_sign(sign, "takes the gradients away after each call", f"runs {calls} times for each step"),
        *span_of("related", steps, "uses those of the last call"),
    )
    because = f"at {sign.count} steps the gradients of the other calls were given the opposite sign, and no gradient "
    because += "that the step used was another"
    return Finding(
        *weight,
        f"{name} steps by the last of {calls} backward calls alone",
        text,
        spans,
        remedies=remedies,
        because=because,
    )


def _told(program: Program, sign: Sign) -> Finding:
    name = optimizer_of(program.optimizers, sign)
    clear, backward = innermost_user(sign.stack), innermost_user(sign.other)
    remedies = []
    step = innermost_user([Frame(**f) for f in sign.facts.get("first", ())])
    if step is not None and backward is not None:
        return _step_first(name, sign, step, backward)
    if clear is not None and backward is not None:
        args = {"place": place(clear), "before": place(backward)}
        note = f"{name} updates {folded(sign.parameters)} by the gradients of this loss"
        remedies.append(Remedy("move_statement", "clear the gradients before the backward call", "unsafe", note, args))
    spans = of_sign(sign, "throws away the gradients that the step is to use", "computes them")
    title = f"{name} steps without gradients: they are cleared between backward and step"
    text = "A step skips every parameter whose `.grad` is None."
    because = f"in all of the first {sign.count} steps no parameter had a gradient: each time `zero_grad()` had "
    because += "cleared them after the backward call"
    return Finding(0.96, of_steps(sign), title, text, tuple(spans), remedies=tuple(remedies), because=because)


def _step_first(name: str, sign: Sign, step: Frame, backward: Frame) -> Finding:
    """The step comes before the backward call of its pass; the clearing of the next pass takes what that has left."""
    note = f"{name} updates {folded(sign.parameters)} by the gradients of this loss"
    title = f"{name} steps before backward, and is cleared before the next step"
    text = "A step skips every parameter whose `.grad` is None."
    spans = (
        span("cause", step, "steps before there are gradients"),
        *span_of("related", sign.other, "computes them"),
        *span_of("related", sign.stack, "clears them in the next pass"),
    )
    remedies = remedy_at(step, "move_statement", "step after the backward call", "unsafe", note, after=place(backward))
    because = f"the first step came before any backward call; in {sign.count} steps since, no parameter had a "
    because += "gradient: `zero_grad()` had cleared it"
    return Finding(0.96, of_steps(sign), title, text, spans, remedies=remedies, because=because)
