"""GD508: the calls of a GradScaler come in an order or number that it cannot work with."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at, together
from graphdoc.messages.ways_out import rows
from graphdoc.program import bindings, scaler_calls
from graphdoc.program.bindings import source_at
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign, likely, signs
from graphdoc.program.spans import code_at, innermost_user, place, span, span_of, where
from graphdoc.source.paths import covers
from graphdoc.story.wording import folded, optimizer_of

_TWICE = "The gradients of one optimizer are unscaled twice for one step"
_LEFT_OUT = "An iteration ended without the GradScaler's `update()`"

PAGE = Page(
    code="GD508",
    title="The calls of the GradScaler do not follow its order: scale, backward, unscale, step, update",
    families=("amp", "silent"),
    what_happened="""\
One iteration with a `GradScaler` has a fixed order: `scaler.scale(loss).backward()`, then perhaps
`scaler.unscale_(optimizer)` for clipping, then `scaler.step(optimizer)` once for each optimizer, then
`scaler.update()` once. Here a call is missing, comes twice or comes too late:

- `unscale_` twice for one optimizer: once by hand and once in a clipping helper or in gradient accumulation;
- an iteration that was left early (a `continue` where the gradients are not finite) without its `update`: the next
  `unscale_` is refused, one iteration late;
- `step` twice, or `unscale_` after `step`, without an `update` in between;
- `step` for an optimizer none of whose parameters has a gradient: `zero_grad()` was called too early, the backward
  ran on the unscaled loss of other parameters, or the optimizer holds stale or frozen parameters;
- `step` or `update` before any `scale`;
- `optimizer.step()` called directly behind `scaler.step(optimizer)`, or in its place: nothing fails, and the step uses
  the same gradients once more, or gradients that are still multiplied by the scale;
- a new scaler for every epoch: each begins at 65536, loses its steps on the way down, and is thrown away before one is
  taken. Nothing fails and nothing trains;
- the *parameters* are half precision (`model.half()`), so the gradients are, too.""",
    why="""\
Small gradients vanish in float16. The scaler multiplies the loss by a large factor, divides the gradients by it
before the step, skips the step if they contain infinities, and adapts the factor in `update`. For each optimizer it
keeps a state between two updates: scaled, unscaled, stepped. Dividing twice would silently give gradients that are
too small by a factor of some thousands, so it raises instead: *unscale_() has already been called on this optimizer
since the last update()*.

*No inf checks were recorded for this optimizer* means that it found no gradient at all to look at. *Attempting to
unscale FP16 gradients* means that the gradients have lost the small values already.""",
    example="""\
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
clip_grad_norm_(model.parameters(), 1.0)
scaler.unscale_(optimizer)
scaler.step(optimizer)""",
    use_instead="""\
scaler.scale(loss).backward()
scaler.unscale_(optimizer)  # once, and only where gradients are looked at before the step
clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
optimizer.zero_grad()""",
    fix_safety="""\
Unsafe: `update()` before an early `continue` or `return`. No step is taken in that iteration, as before; the scaler
learns that it has ended and lowers its factor if the gradients were not finite. Or drop the early exit: `scaler.step`
leaves out a step with infinite or nan gradients by itself.

For the rest, which of the calls is the one too many depends on the loop. With accumulation over several batches,
unscale, step and update belong to the last batch only. With several optimizers: one `scale(loss).backward()` for each
loss, one `step` for each optimizer, one `update` at the end of the iteration.

A scaler that was made again and again is made once, before the loop, and handed to the function that uses it:
unsafe, for steps are taken from then on.

Keep the parameters in float32 and let `torch.autocast` choose the precision of the operations. `bfloat16` needs no
scaler.""",
    not_this="""\
- The step is skipped in the first iterations and a warning about `lr_scheduler.step()` appears: the scaler is looking
  for its factor; that is no error.
- Losses are nan: the scaler cannot repair a nan that the forward makes.
- Anomaly detection reports infinities in the backward of a scaled loss: they are expected there.""",
    references=(
        ("Automatic mixed precision examples", "notes/amp_examples.html"),
        ("torch.amp.GradScaler", "amp.html#gradient-scaling"),
    ),
)


_TELLS = {message: (deed, text) for message, deed, text in rows("scaler_misuse", 3)}
"""What goes on after the call that the scaler refuses, and what its complaint means."""
_AGAIN = {"scaler-unscale-twice": ("unscale_",), "scaler-unscale-after-step": ("step",), "scaler-step-twice": ("step",)}
_DONE = {"unscale_": "unscaled", "step": "stepped"}
_ORDER = (
    " The order of an iteration is: scale and backward, unscale at most once, step once for each optimizer, update "
    "once."
)


def recognise(program: Program) -> Finding | None:
    """One of the scaler's own complaints; the place is the call that it refused, or what left an update out."""
    complaint = program.message(*_TELLS)
    renewed = first_sign(program.signs, "renewed-scaler")
    if complaint is None:
        return _renewed(program, renewed) if renewed is not None else _past(program)
    again = _AGAIN.get(complaint.id, ())
    found = scaler_calls.refused(program.evidence.events, program.evidence.extras, *again) if again else None
    return _again(program.sources, found) if found is not None else _told(program, complaint.id)


def _renewed(program: Program, sign: Sign) -> Finding:
    """Scalers that are thrown away before their factor fits."""
    made, sources = innermost_user(sign.other), program.sources
    scalers = f"{sign.facts['scalers']} scalers were made meanwhile"
    note = "it keeps the factor that it has found, so that steps are taken"
    remedies = remedy_at(made, "make_once", "make the scaler once, before the loop", "unsafe", note)
    title = f"`{code_at(sources, innermost_user(sign.stack))}` never steps: each new GradScaler starts over"
    text = "A scaler begins with a factor of 65536 and halves it in each step that it leaves out because of infinite "
    text += "gradients. A new one has forgotten what the one before had found."
    spans = (
        *span_of("cause", sign.other, "each new scaler starts over with the first factor"),
        *span_of("related", sign.stack, f"{sign.count} calls, and no step was taken"),
    )
    because = f"{sign.count} calls of `scaler.step` in a row took no step; {scalers}"
    return Finding(*likely(0.95), title, text, spans, remedies=remedies, because=because)


def _past(program: Program) -> Finding | None:
    """Steps that the scaler knows nothing of, by gradients of the loss that it has scaled."""
    found, sources = signs(program.signs, "past-scaler"), program.sources
    if not found:
        return None
    steps = [[f for f in (Frame(**told) for told in sign.facts["step"]) if f.user] for sign in found]
    names = " and ".join(optimizer_of(program.optimizers, sign) for sign in found)
    names = names if len(names) <= 45 else f"{len(found)} optimizers"
    scaled, also = any(s.facts["scaled"] for s in found), all(steps)
    verb = "step" if found[1:] else "steps"
    title = f"{names} also {verb} outside of the GradScaler" if also else f"{names} {verb} past the GradScaler"
    text = "`scaler.step(optimizer)` divides the gradients by the scale, looks for infinities and calls "
    text += "`optimizer.step()` itself."
    still = "uses gradients that are still multiplied by the scale"
    spans = (
        *(t for s in found for t in span_of("cause", s.stack, still if s.facts["scaled"] else "steps once more")),
        *(t for s in found if s.facts["scaled"] for t in span_of("related", s.other, "the gradients of a scaled loss")),
        *(t for step in steps for t in span_of("related", step, "has made the step already")),
    )
    because = f"{found[0].count} steps of {optimizer_of(program.optimizers, found[0])} in a row, of those outside of "
    because += "`scaler.step`, used " + (
        "gradients that nothing had divided by the scale" if found[0].facts["scaled"] else "what the scaler had used"
    )
    remedies = _without(sources, found, steps) if also else _by_scaler(sources, found)
    text += " A direct call uses them as they are." if scaled else " A direct call steps by them once more."
    return Finding(*likely(0.96), title, text, spans, remedies=tuple(remedies), because=because)


def _without(sources: SourceTexts, found: list[Sign], steps: list[list[Frame]]) -> list[Remedy]:
    """Delete these steps; not where the scaler's step stands under a condition, and they are for the other case too."""
    ends = zip((innermost_user(s.stack) for s in found), (step[-1] for step in steps), strict=True)
    pairs = [(at, own) for at, own in ends if at is not None]
    title, note = "leave the steps to `scaler.step`", "each iteration then makes one step of each"
    for at, own in pairs:
        source, statement = source_at(sources, own), bindings.statement_at(sources, own)
        around = source.node_ancestors(statement) if statement is not None and own.file == at.file else iter(())
        if any(isinstance(n, ast.If) and not covers(n, at.line) for n in around):
            return [Remedy("leave_to_scaler", title, "display", "call `step()` itself only where no scaler steps")]
    return together([edit_at("delete_statement", at) for at, _ in pairs], title, "unsafe", note)


def _by_scaler(sources: SourceTexts, found: list[Sign]) -> list[Remedy]:
    """``scaler.step(optimizer)`` for ``optimizer.step()``, where the line that scales names the scaler."""
    title, note = "step by `scaler.step(optimizer)`", "call `scaler.update()` at the end of each iteration as well"
    scaler = code_at(sources, innermost_user(found[0].other)).partition(".scale(")[0]
    if len(found) == 1 and found[0].facts["updated"] and scaler.replace(".", "").isidentifier():
        note = "infinite gradients then leave a step out"
        pairs = [["{it}.step()", f"{scaler}.step({{it}})"]]
        return list(remedy_at(innermost_user(found[0].stack), "rewrite", title, "unsafe", note, pairs=pairs))
    return [Remedy("step_by_scaler", title, "display", note)]


def _told(program: Program, complaint: str) -> Finding:
    strength, confidence = program.weight(0.95, Proof.RAISED.confidence)
    frame = program.raised_at
    raised = program.raised_span("finds none")
    title = _title(program.sources, complaint, frame)
    lost = None
    if complaint == "scaler-no-inf-checks":
        lost = scaler_calls.cleared_since_backward(program.evidence.events, program.optimizers)
    if lost is None:
        here = "the scaler refuses this call"
        marks = (span("cause", frame, here),) if frame else raised
        elsewhere = _reached_others(program) if complaint == "scaler-no-inf-checks" else ""
        told = elsewhere or _TELLS[complaint][1] + _ORDER
        return Finding(strength, confidence, title, told, tuple(marks))
    spans = (
        span("cause", lost[0], "throws away the gradients that the step is to use"),
        span("related", lost[1], "computes them"),
    )
    why = f"They were cleared at {where(lost[0])}, after the backward call."
    return Finding(strength, confidence, title, why + _ORDER, (*spans, *raised), remedies=_cleared_later(*lost))


def _reached_others(program: Program) -> str:
    """That the last backward call reached parameters, and none of those that the only optimizer holds."""
    call = next((e for e in reversed(program.evidence.events) if e.kind == "backward" and not e.failed), None)
    if call is None or len(program.optimizers) != 1 or not call.reaches:
        return ""
    if {*call.reaches} & {*program.optimizers[0].parameters}:
        return ""
    held, reached = folded(program.optimizers[0].parameters), folded(call.reaches)
    return f"The optimizer holds {held}, and the last backward call reached {reached} alone."


def _title(sources: SourceTexts, complaint: str, frame: Frame | None) -> str:
    call, deed = code_at(sources, frame), _TELLS[complaint][0]
    return f"`{call}` {deed}" if deed and call and "\n" not in call else PAGE.title


def _cleared_later(clear: Frame, backward: Frame) -> tuple[Remedy, ...]:
    note = "The step then uses the gradients of this loss."
    title = "clear the gradients before the backward call"
    return remedy_at(clear, "move_statement", title, "unsafe", note, before=place(backward))


def _again(sources: SourceTexts, found: scaler_calls.Refused) -> Finding:
    """Two calls without an update between them: in one iteration, or because the one before left its update out."""
    facts: tuple[str, ...] = ()
    if found.update is not None and found.waiting > 0:
        calls = "one backward call has" if found.waiting == 1 else f"{found.waiting} backward calls have"
        facts = (f"`update()` was called last at {where(found.update)}; {calls} come since",)
    if not found.backwards:
        return replace(_at_once(found), facts=facts)
    exits, update = scaler_calls.ways_out(sources, found)
    test = scaler_calls.condition(sources, found)
    if found.kind == "unscale_" and not (found.stepped or found.zeroed or exits or test):
        return replace(_before_one_step(sources, found), facts=facts)
    if exits and update is not None and test is None:
        return replace(_left_early(sources, found, exits, update), facts=facts)
    return replace(_not_updated(sources, found, exits, test), facts=facts)


def _at_once(found: scaler_calls.Refused) -> Finding:
    """Twice in one iteration."""
    done = _DONE[found.kind]
    weight = Proof.CALLS.at(0.95)
    text = f"The gradients of this optimizer were {done} at {where(found.earlier)} already, in this same iteration."
    text += _ORDER
    spans = (
        span("cause", found.now, "refused here"),
        span("related", found.earlier, f"{done} here already, and no backward has come since"),
    )
    return Finding(*weight, f"The gradients of one optimizer are {done} twice in one iteration", text, spans)


def _before_one_step(sources: SourceTexts, found: scaler_calls.Refused) -> Finding:
    """Once for each backward call, where the gradients of several are added up for one step."""
    call = code_at(sources, found.now)
    title = f"`{call}` is called twice for one step" if "\n" not in call else _TWICE
    text = f"{where(found.earlier)} unscaled these gradients, and more were added to them since: no step and no "
    text += "`zero_grad()` came in between. Unscale and clip once, after the last backward call of the step."
    spans = (
        span("cause", found.now, "unscales what is unscaled in part already"),
        *(span("related", f, "unscaled here before") for f in (found.earlier,) if f != found.now),
    )
    return Finding(*Proof.CALLS.at(0.95), title, text, spans)


def _since(found: scaler_calls.Refused) -> str:
    return (
        f"The gradients of this optimizer were {_DONE[found.kind]} at {where(found.earlier)} in an earlier iteration, "
        "and no `update()` has come between that call and this one. "
    )


def _left_early(sources: SourceTexts, found: scaler_calls.Refused, exits: list[Frame], update: Frame) -> Finding:
    """A way out of the iteration leads past the update."""
    again = f"{_DONE[found.kind]} again: to the scaler it is still the iteration before"
    name = f"the `{code_at(sources, exits[0]).split()[0]}`" if len(exits) == 1 else "what leaves the iteration there"
    text = f"{_since(found)}The call itself is right. Between it and `update()` stands {name}: an iteration that takes "
    text += "this way ends without telling the scaler."
    spans = (
        *(span("cause", f, "leaves the iteration without `update()`") for f in exits[:3]),
        span("related", update, "the update that is then left out"),
        span("failed", found.now, again),
    )
    remedies = _fixes(sources, exits, update)
    return Finding(*Proof.CALLS.at(0.95, len(exits) == 1), _LEFT_OUT, text, spans, remedies=remedies)


def _not_updated(sources: SourceTexts, found: scaler_calls.Refused, exits: list[Frame], test: Frame | None) -> Finding:
    """The update stands under a condition, or there is none to be seen."""
    last = [found.update] if found.update is not None and test is None else []
    spans = (
        span("cause", found.now, f"{_DONE[found.kind]} again, without `update()` since the last time"),
        *span_of("related", test, "`update()` is called only under this condition"),
        *(span("related", f, "and not at all on this way out") for f in exits[:2]),
        *(span("related", f, "the last `update()` was made here") for f in last),
    )
    remedies = _always(sources, found) if test is not None and found.zeroed else ()
    return Finding(*Proof.CALLS.at(0.95), _LEFT_OUT, _since(found) + _ORDER.strip(), spans, remedies=remedies)


def _always(sources: SourceTexts, found: scaler_calls.Refused) -> tuple[Remedy, ...]:
    """Update in every iteration, where each has gradients of its own: it clears them, whether it stepped or not."""
    stands = scaler_calls.under_condition(sources, found)
    if stands is None:
        return ()
    update, owner, text = stands
    delete = edit_at("delete_statement", update)
    add = edit_at("add_statement", owner, statement=text)
    note = "An iteration that leaves its step out then ends for the scaler as well."
    return tuple(together([delete, add], f"Call `{text}` after the condition, in every iteration", "unsafe", note))


def _fixes(sources: SourceTexts, exits: list[Frame], update: Frame) -> tuple[Remedy, ...]:
    note = "`scaler.step(optimizer)` leaves the step out by itself where the gradients are infinite or nan."
    by_hand = Remedy("leave_to_step", "Or do not leave early", "display", note)
    if len(exits) != 1:
        return (by_hand,)
    title = "Call `update()` on this way out as well"
    note = "The scaler then ends this iteration as it ends the others, and lowers its factor where the gradients were "
    note += "infinite or nan. Whatever else the iteration leaves out stays left out."
    return (
        *remedy_at(exits[0], "add_statement", title, "unsafe", note, statement=code_at(sources, update), before=True),
        by_hand,
    )
