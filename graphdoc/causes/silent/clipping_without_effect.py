"""GD708: gradients are clipped where no step uses what was clipped."""

from __future__ import annotations

import ast

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.gathered_parameters import one_shot
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign
from graphdoc.program.spans import innermost_user, place, span_of
from graphdoc.remedies.clipping import clip_beside, moved_with, parameters_of
from graphdoc.source.module import each, is_method_call
from graphdoc.story.ungiven import nothing_left
from graphdoc.story.wording import folded, optimizer_of

PAGE = Page(
    code="GD708",
    title="Gradients are clipped where it has no effect, or not the one that was meant",
    families=("silent",),
    what_happened="""\
`clip_grad_norm_` or `clip_grad_value_` is called after `step()`, where the gradients have been used already; in front
of `backward()`, where there are none yet; after a `backward()` in which hooks have stepped already; or on gradients
that a `GradScaler` has multiplied, so that the bound holds for numbers thousands of times too large. Or it is given the
parameters of another network than the one that steps; or an iterator of parameters that something else has gone through
before, the optimizer perhaps. The training runs as if nothing had been clipped, or with almost no gradient.""",
    why="Clipping writes to the `.grad` that is there when it is called. Nothing connects it with a step.",
    example="""\
loss.backward()
optimizer.step()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.zero_grad()""",
    use_instead="""\
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
optimizer.zero_grad()""",
    fix_safety="""\
Unsafe, because steps become smaller (or, after `unscale_`, as large as the bound says). With a scaler the order is
`scaler.scale(loss).backward()`, `scaler.unscale_(optimizer)`, `clip_grad_norm_`, `scaler.step(optimizer)`.""",
    not_this="""\
- Nothing is clipped and the gradients grow: `exploding-gradients`.
- The norm is only measured, with an infinite bound: that is no fault.""",
    references=(links.OPTIM, "torch.nn.utils.clip_grad_norm_"),
)

_TITLES = {
    "after-step": "gradients are clipped after the step that uses them: this has no effect",
    "in-backward": "the steps run inside backward: clipping after it has no effect",
    "others-step": "the step uses other parameters than those whose gradients are clipped",
    "nobodys": "the step uses other parameters than those whose gradients are clipped",
    "before-backward": "gradients are clipped before backward computes them: this has no effect",
    "before-clearing": "gradients are clipped before backward computes them: this has no effect",
    "before-unscale": "gradients are clipped while they are scaled: the bound is far too small",
}
_LABELS = {
    "after-step": ("the step has used these gradients already", "uses the gradients as they are"),
    "in-backward": ("the steps have been made by now", "steps while backward runs"),
    "others-step": ("bounds gradients that no step uses", "uses the gradients of other parameters"),
    "nobodys": ("finds no gradient: no optimizer has these parameters", "uses the gradients of other parameters"),
    "before-backward": ("there are no gradients yet", "computes them"),
    "before-unscale": ("bounds gradients that are multiplied by the scale", "divides by the scale only here"),
    "before-clearing": ("finds the gradients of the step before", "uses the gradients as backward has left them"),
}
_TOLD = {
    "after-step": "Clipping changes the gradients that are there at the call, and the step has used them already.",
    "in-backward": "A hook steps as soon as a gradient is complete, before `backward()` returns. The norm of all "
    "gradients is known only after that: clip each gradient in the hook, or step after `backward()`.",
    "others-step": "Clipping changes the gradients of the parameters that it is given, and the step uses others.",
    "nobodys": "Clipping changes the gradients of the parameters that it is given. These have none.",
    "before-backward": "Clipping changes the gradients that are there at the call: none, before `backward()`.",
    "before-clearing": "Clipping changes the gradients that are there at the call: those that a step has used already.",
    "before-unscale": "The bound is compared with gradients that are still multiplied by the scale of the loss.",
}
_BECAUSE = {
    "after-step": "each call came right after the step, and `zero_grad()` followed before anything used the gradients",
    "in-backward": "the backward call before each of these calls ran a step of every optimizer of these parameters",
    "others-step": "each call was given parameters that had been stepped already, and the next step was not theirs",
    "nobodys": "at each call its parameters had no gradient, no optimizer has them, and nothing else was clipped",
    "before-backward": "at each call no parameter had a gradient; backward and step followed",
    "before-clearing": "the first call found no gradient, each later one what a step had used, and that was cleared",
    "before-unscale": "at each call the scaler had scaled the loss, and `unscale_` was not called before",
}


def recognise(program: Program) -> Finding | None:
    """Every call from this place stood where no step uses what it does."""
    sources = program.sources
    sign = first_sign(program.signs, "clip-unused")
    if sign is None or innermost_user(sign.stack) is None or _is_measure(sources, sign):
        return None
    if sign.facts["how"] == "nothing-given":
        return _nothing_given(program, sign)
    return _told(program, sign)


def _told(program: Program, sign: Sign) -> Finding:
    how = str(sign.facts["how"])
    told = "before-clearing" if how == "after-step" and sign.facts.get("early") else how
    here, there = _LABELS[told]
    if how == "others-step" and sign.parameters:
        here = f"bounds the gradients of {folded(sign.parameters)}, which no step uses"
    clip = clip_beside(program.sources, sign)
    return Finding(
        *Proof.STEPS.at(0.93),
        _TITLES[told],
        _TOLD[told],
        (
            *span_of("cause", [clip] if clip is not None else sign.stack, here),
            *span_of("related", sign.stack, "bounds the gradients"),
            *span_of("cause" if how == "in-backward" else "related", sign.other, there),
        ),
        remedies=tuple(_remedies(program, sign, how)),
        because=_BECAUSE[told],
    )


def _is_measure(sources: SourceTexts, sign: Sign) -> bool:
    """Whether the norm alone is wanted: its bound is out of reach, and the program takes what the call returns."""
    if sign.facts["how"] not in ("after-step", "in-backward") or sign.facts.get("bounds", True):
        return False
    frame = innermost_user(sign.stack)
    call = bindings.call_at(sources, frame)
    return call is not None and not _is_alone(sources, frame, call)


def _is_alone(sources: SourceTexts, frame: Frame | None, call: ast.Call) -> bool:
    """Whether nothing takes what a call returns."""
    return any(n.value is call for n in each(bindings.tree_at(sources, frame), ast.Expr))


def _nothing_given(program: Program, sign: Sign) -> Finding | None:
    """The parameters were to come from an iterator that something else had gone through before."""
    clip = innermost_user(sign.stack)
    call = bindings.call_at(program.sources, clip)
    given = bindings.argument(call, 0, "parameters")
    found = one_shot(program.sources, program.parameters, sign.stack, given)
    if found is None or clip is None:
        return None
    name = optimizer_of(program.optimizers, sign)
    return nothing_left(
        found,
        clip,
        f"`{found.name}` is an exhausted iterator: the gradients of {'a part of ' if found.part else ''}"
        f"`{found.module}` are not clipped",
        "finds nothing in it: no gradient is bounded",
        f"{sign.count} calls in a row were given no parameter at all, while {name} stepped",
        span_of("related", sign.other, "uses the gradients as they are"),
    )


def _remedies(program: Program, sign: Sign, how: str) -> list[Remedy]:
    clip, other = clip_beside(program.sources, sign), innermost_user(sign.other)
    if clip is None or other is None or other in sign.stack:
        return []
    note = f"the bound then holds for the gradients that {optimizer_of(program.optimizers, sign)} uses"
    if how == "before-unscale":
        statement = _unscaling(program.sources, other)
        args: dict[str, object] = {"place": place(clip), "statement": statement, "before": True}
        title = "divide the gradients by the scale before they are clipped"
        return [Remedy("add_statement", title, "unsafe", note, args)] if statement else []
    if how in ("others-step", "in-backward"):
        return []  # whose gradients are to be bounded, or where to step, is for the author to say
    if how == "nobodys":
        call, given = bindings.call_at(program.sources, clip), parameters_of(program, other, sign.optimizer)
        if call is None or not call.args or not given or not _is_alone(program.sources, clip, call):
            return []
        rest = [bindings.text_of(a) for a in (*call.args[1:], *call.keywords)]
        text = f"{bindings.text_of(call.func)}({', '.join([given, *rest])})"
        added = {"place": place(clip), "statement": text, "before": True}
        edits = [{"kind": "add_statement", "args": added}, {"kind": "delete_statement", "args": {"place": place(clip)}}]
        return [Remedy("several", "clip the gradients that the step uses", "unsafe", note, {"edits": edits})]
    where = {"before": place(other)} if how == "after-step" else {"after": place(other)}
    title = f"clip {'before the step' if how == 'after-step' else 'after the backward call'}"
    return [
        Remedy("move_statement", title, "unsafe", note, {"place": moved_with(program.sources, clip, other), **where})
    ]


def _unscaling(sources: SourceTexts, step: Frame) -> str:
    """``scaler.unscale_(optimizer)`` for ``scaler.step(optimizer)``."""
    call = bindings.call_at(sources, step)
    if not is_method_call(call, "step") or not call.args:
        return ""
    return f"{bindings.text_of(call.func.value)}.unscale_({bindings.text_of(call.args[0])})"
