"""GD713: an optimizer steps and never has a gradient to step by."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, each_once, edit_at, together
from graphdoc.program import bindings, library_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import first_sign, likely
from graphdoc.program.spans import innermost_user, loops_around, of_sign, span, span_of
from graphdoc.remedies.fix_places import to_finish
from graphdoc.source.paths import only
from graphdoc.source.scopes import binds
from graphdoc.story.wording import folded, listing, opening, optimizer_of

PAGE = Page(
    code="GD713",
    title="An optimizer steps and never has a gradient to step by",
    families=("silent",),
    what_happened="""\
The loss is computed, the optimizer steps, and none of its parameters has a gradient: its steps change nothing.
Either no `backward()` is called at all, or the loss is made of something else: of a copy
(`copy.deepcopy(model)`, `model.weight.data`, `nn.Parameter(self.weight)` in a forward), or of another instance of the
model than the one that the optimizer was given. Or all gradients are zeros: `torch.func.grad` gives these where the
function takes values that were computed before it, and not its own argument.""",
    why="""\
`step()` leaves out every parameter whose `.grad` is None: in a network some layers may rightly have none in an
iteration. That all of them have none at every step looks the same to it.""",
    example="""\
learner = copy.deepcopy(model)
loss = criterion(learner(x), y)
optimizer.zero_grad()  # the optimizer of model
loss.backward()
optimizer.step()""",
    use_instead="""\
weights = {name: p - rate * g for (name, p), g in zip(model.named_parameters(), gradients)}
loss = criterion(torch.func.functional_call(model, weights, x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()""",
    fix_safety="""\
Unsafe, whatever is done, and not a patch: what the loss was to be computed from is for the author to say. Use the
parameters themselves, or a function of them that keeps the graph, where the copy stands; or give the optimizer what the
loss does reach. Where no `backward()` is called at all, a patch adds it: of the one number with a graph that has a name
there, or with a placeholder for the loss.""",
    not_this="""\
- The place where the values leave the graph is known: `cut-by-conversion`, `cut-by-detach`, `cut-by-no-grad`.
- The parameters get gradients, which are cleared before the step: `cleared-before-step`.
- The model's parameters were replaced after the optimizer was made: `optimizer-holds-stale-parameters`.""",
    references=(links.OPTIM, "torch.Tensor.backward"),
)


def recognise(program: Program) -> Finding | None:
    """No step of this optimizer has found a gradient, and nothing tells more of it."""
    sign = first_sign(program.signs, "starved")
    if sign is None or any(_explains(other, sign) for other in program.signs):
        return None
    return _told(program, sign)


def _explains(other: Sign, sign: Sign) -> bool:
    """Whether another sign speaks of the same optimizer, or of parameters of it."""
    if other.kind == sign.kind or other.weak:
        return False
    return other.optimizer == sign.optimizer or not {*sign.parameters}.isdisjoint(other.parameters)


def _told(program: Program, sign: Sign) -> Finding | None:
    name = optimizer_of(program.optimizers, sign)
    if sign.facts.get("no_call"):
        return _never_called(program, sign, name)
    if sign.facts.get("zeros"):
        return _zeros(program.sources, sign, name)
    reached = [str(n) for n in sign.facts.get("reaches") or ()]
    more = int(sign.facts.get("more", 0))
    others = f"{more} unnamed {'leaf' if more == 1 else 'leaves'}" if more else ""
    whom = " and ".join(part for part in (folded(reached), others) if part)
    spans = of_sign(sign, "finds no gradient", f"gives gradients to {whom} alone")
    whose, alike = folded(sign.parameters) or "what it holds", sign.facts.get("alike")
    who = f"{alike} optimizers that one line has made" if alike else name
    weight = likely(0.5)  # that nothing reaches them is seen; that something should is not
    title = f"{name} steps and never has a gradient: no loss reaches {whose}"
    text = f"{opening(name)} skips parameters whose `.grad` is None. At each of its steps that is all of them, so its "
    text += "steps change nothing."
    because = f"at each of {sign.count} steps of {who} every `.grad` was None; no backward call that was looked at has "
    because += f"reached one of {'their' if alike else 'its'} parameters"
    return Finding(*weight, title, text, tuple(spans), because=because)


def _zeros(sources: SourceTexts, sign: Sign, name: str) -> Finding | None:
    """Zeros were put into ``.grad`` by something else than a backward call."""
    unread = library_calls.unread_by_transforms(sources)
    if not unread:
        return None  # rewards that are zero so far, or a step that is to decay alone
    weight = likely(0.5)  # that a loss was to depend on them is not seen
    title = f"{name} steps by zeros: no backward call has made its gradients"
    text = "`torch.func.grad` gives zeros for what the function's result does not depend on, and no error. Compute the "
    text += "loss from the function's own argument."
    spans = (
        *(span("cause", f, "does not read its first argument") for f in unread[:3]),
        *span_of("related", sign.stack, "finds zeros"),
    )
    because = f"at each of the first {sign.count} steps of {name} every number in every `.grad` was zero; no backward "
    because += "call that was looked at has reached one of its parameters"
    return Finding(*weight, title, text, spans, because=because)


def _never_called(program: Program, sign: Sign, name: str) -> Finding:
    """Losses are computed, and nobody differentiates one."""
    weight = likely(0.5)  # that a loss was to be differentiated is not seen
    title = f"{name} steps and never has a gradient: no backward call is made"
    text = f"{opening(name)} skips parameters whose `.grad` is None. At each of its steps that is all of them, so its "
    text += "steps change nothing. Call `backward()` on the loss before the step."
    every = [s for s in program.signs if s.kind == "starved" and s.facts.get("no_call")]
    places = [(at, s) for s in (sign, *(e for e in every if e is not sign)) if (at := innermost_user(s.stack))]
    spans = [span("related", at, f"neither does {optimizer_of(program.optimizers, s)} here") for at, s in places[1:]]
    because = f"at each of {sign.count} steps of {name} every `.grad` was None; graphs were recorded between them, and "
    because += "none was differentiated"
    losses = [(only(s.facts.get("losses") or []), at) for at, s in places]
    calls = _calls(program.sources, [(loss, at) for loss, at in losses if loss])
    note = "The step then has the gradient of that loss."
    remedies: Iterable[Remedy]
    if calls and all(loss for loss, _ in losses):
        edits = [edit_at("add_statement", at, statement=call, before=True) for call, at in calls]
        fix = f"call {listing(each_once([f'`{call}`' for call, _ in calls]))} before the step"
        remedies = together(edits, fix, "unsafe", note)
    else:
        fix = "call `backward()` on the loss, between `zero_grad()` and the step"
        args = {"LOSS": "the loss that this optimizer is to make small, a number"}
        at = innermost_user(sign.stack)
        remedies = to_finish(at, "add_statement", fix, note, args, statement="LOSS.backward()", before=True)
    cause = span_of("cause", sign.stack, "finds no gradient")
    return Finding(*weight, title, text, (*cause, *spans), because=because, remedies=tuple(remedies))


def _calls(sources: SourceTexts, losses: list[tuple[str, Frame]]) -> list[tuple[str, Frame]]:
    """One call for each loss, and what it is to stand before: the first step that has the loss, or the loop of steps
    in which the loss is not computed anew."""
    found: dict[tuple[object, str], tuple[str, Frame]] = {}
    for loss, at in sorted(losses, key=lambda one: (one[1].file, one[1].start)):
        before = at
        for loop in loops_around(sources, at):
            if binds(loop, loss):
                break
            before = bindings.frame_of(sources, at.file, loop)
        found.setdefault((bindings.scope_at(sources, at), loss), (f"{loss}.backward()", before))
    return list(found.values())
