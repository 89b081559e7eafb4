"""GD809: each rank steps by its own gradients: the DistributedDataParallel wrapper was bypassed, is old, or is none."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program.library_calls import library_calls, module_called, wrapper_past
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign, likely
from graphdoc.program.spans import code_at, innermost, short_code, span, span_of
from graphdoc.remedies.fix_places import through_wrapper
from graphdoc.story.wording import folded, in_number, optimizer_of

PAGE = Page(
    code="GD809",
    title="Ranks train apart: their gradients are never averaged",
    families=("silent",),
    what_happened="""\
Several processes train together, and each steps by its own gradients. Their parameters part from the first step on.
Nothing is raised, and each rank's loss may even fall. Three programs do that:

- **the wrapper is bypassed**: `model.module(x)`, `unwrap_model(model)(x)` or a method such as
  `model.module.loss(x)` runs the forward, so `DistributedDataParallel.forward` does not;
- **the wrapper is older than the parameters**: a conversion that makes new ones or gives them another dtype or device,
  be it for a moment, or a layer that is added later. The same holds of `fully_shard`: an adapter or a head that a
  module gets after it belongs to none of FSDP2's groups;
- **there is no wrapper**: a `DistributedSampler` divides the data, but the model was never wrapped and the
  program averages nothing itself.""",
    why="""\
`DistributedDataParallel` averages gradients in hooks of the parameters. Its `forward` prepares them for the next
backward; without that the hooks return at once, as they do under `no_sync()`. So a backward through the inner module
fills `.grad` on this rank alone, and no all-reduce runs.

The hooks are those of the parameters that the wrapper was made with. One that takes their place has none, and one that
gets another dtype or device loses them.

Only the forward of the wrapper counts. Reading `model.module` for a checkpoint, an evaluation under `no_grad`, or the
names of parameters does no harm.""",
    example="""\
model = DistributedDataParallel(net)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.mse_loss(model.module(x), y)  # past the wrapper
    loss.backward()
    optimizer.step()""",
    use_instead="""\
model = DistributedDataParallel(net)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()""",
    fix_safety="""\
Unsafe: calling the wrapper changes the gradients, to the average over the ranks. That is what the wrapper is for.

A method of the inner module has no counterpart on the wrapper. Let `forward` do its work (with an argument that says
what to compute), and call the wrapper; or average the gradients after `backward()` yourself, as the patch does.

Where another part of the program averages gradients at a later time, after many steps say, nothing has to be changed.
""",
    not_this="""\
- The forward runs through the wrapper and some parameters get no gradient: `ddp-unused-parameters`.
- A term outside of the forward uses a parameter a second time: `ddp-marked-ready-twice`.
- Gradients that are collected under `no_sync()`: the next backward outside of it averages them all.""",
    references=(
        "torch.nn.parallel.DistributedDataParallel",
        ("DistributedDataParallel: internal design", "notes/ddp.html#internal-design"),
    ),
)


_AVERAGE = """\
for parameter in {module}.parameters():
    if parameter.grad is not None:
        {{torch.distributed.all_reduce}}(parameter.grad)
        parameter.grad /= {{torch.distributed.get_world_size}}()"""


def recognise(program: Program) -> Finding | None:
    """The audit: an optimizer stepped again and again by gradients that no collective has touched."""
    bypassed = first_sign(program.signs, "wrapper-bypassed")
    if bypassed is not None:
        return _bypassed(program, bypassed)
    outdated = first_sign(program.signs, "wrapper-outdated")
    if outdated is not None:
        return (_unsharded if outdated.facts.get("sharded") else _outdated)(program, outdated)
    alone = first_sign(program.signs, "never-wrapped")
    return _alone(program, alone) if alone is not None else None


def _bypassed(program: Program, sign: Sign) -> Finding | None:
    frame = innermost(sign.stack)
    if frame is None:
        return None
    sources, name = program.sources, optimizer_of(program.optimizers, sign)
    wrapper, some = wrapper_past(sources, frame), bool(sign.facts.get("collectives"))
    called = f"`{short_code(sources, frame)}`" if code_at(sources, frame) else "a call"
    past = f" `{wrapper}`" if wrapper else ""
    title = f"{called} bypasses DDP: gradients are not averaged"
    text = f"The forward ran past the DistributedDataParallel wrapper{past}, so its hooks were not prepared and "
    text += "backward started no all-reduce. Each rank steps by its own gradients, and the parameters of the ranks "
    text += "part."
    spans = (
        span("cause", frame, f"runs the module without its wrapper{past}"),
        *span_of("related", sign.other, "fills `.grad` on this rank alone"),
    )
    remedies = _through(program, frame, wrapper, innermost(sign.other))
    because = f"at {sign.count} steps of {name} backward had started no collective"
    because += "; those that ran at other times averaged no gradient" if some else ", and none ran before the step"
    return Finding(*Proof.COLLECTIVES.at(0.95, not some), title, text, spans, remedies=remedies, because=because)


def _outdated(program: Program, sign: Sign) -> Finding | None:
    frame = innermost(sign.stack)
    if frame is None:
        return None
    name, names = optimizer_of(program.optimizers, sign), folded(sign.parameters)
    are = "are" if len(sign.parameters) != 1 else "is"
    why = f"{names} {are} none of those" if names else "These are others"
    why = f"The wrapper has hooks in the parameters that it was made with. {why}: a conversion or a new layer made "
    why, made, lists = f"{why}another parameter", "made", "lists others"
    unheard = "runs parameters that the wrapper does not know"
    back = bool(sign.facts.get("through"))
    if back and any("no_sync" in text for text in program.sources.values()):
        return None
    if back or sign.facts.get("converted"):
        why, made = "Another dtype or device drops the wrapper's hooks from a parameter", "converted"
        unheard, lists = "runs parameters that have lost the wrapper's hooks", "was made for another dtype or device"
    if back:
        why, lists = f"{why}, and the old one does not bring them back", "had prepared its hooks in `forward`"
    title = "make the DistributedDataParallel after the last change of its module"
    note = "First move, convert and extend the module; then wrap it, and make the optimizer."
    text = f"{why}. Each rank steps by its own gradient."
    weight = Proof.COLLECTIVES.at(0.95, not sign.facts.get("collectives"))
    headline = f"DDP does not average {names or 'new parameters'}, {made} after it"
    spans = (span("cause", frame, unheard), *span_of("related", sign.other, "fills their `.grad` on this rank alone"))
    remedies = (Remedy("wrap_model", title, "display", note),)
    because = f"at {sign.count} steps of {name} no collective changed their gradients, and the wrapper {lists}"
    return Finding(*weight, headline, text, spans, remedies=remedies, because=because)


def _unsharded(program: Program, sign: Sign) -> Finding | None:
    """Parameters that FSDP2 does not have, where the program gives it all that a module has."""
    calls = library_calls(program.sources, "fully_shard")
    frame = innermost(sign.stack)
    if frame is None or not calls or any("ignored_params" in text for text in program.sources.values()):
        return None
    name, names = optimizer_of(program.optimizers, sign), folded(sign.parameters) or "new parameters"
    are, they = in_number(len(sign.parameters) != 1, "are they")
    note = "First add adapters, heads and whatever else is trained; then shard, and make the optimizer."
    weight = likely(0.95)  # that they are later than the call is read off the groups, which lack them
    title = f"FSDP2 does not average {names}, added after `fully_shard`"
    text = f"`fully_shard` takes the parameters that a module has at the call. {names} {are} none of those, so {they} "
    text += f"{are} neither sharded nor averaged: each rank steps by its own gradient."
    spans = (
        span("cause", calls[-1], f"{names} {are} not there yet"),
        span("created", frame, f"runs {names}, a plain tensor on each rank"),
        *span_of("related", sign.other, "fills `.grad` on this rank alone"),
    )
    remedies = (Remedy("shard_last", "call `fully_shard` after the last change of the module", "display", note),)
    because = f"at {sign.count} steps of {name} no collective changed their gradients, and FSDP2 does not list them"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _through(program: Program, frame: Frame, wrapper: str, backward: Frame | None) -> tuple[Remedy, ...]:
    if wrapper:
        note = "DistributedDataParallel then averages the gradients of all ranks in backward."
        return through_wrapper(program.sources, frame, wrapper, "unsafe", note)
    note = "Only a forward that runs through the wrapper prepares its all-reduce."
    words = Remedy("through_forward", "do this in the module's `forward`, and call the wrapper", "display", note)
    module = module_called(program.sources, frame)
    if not module or backward is None or backward.function != frame.function:
        return (words,)
    title = "average the gradients of all ranks after `backward()`"
    note = "Each rank then steps by the average, as with DistributedDataParallel. Nothing overlaps with backward."
    return (
        *remedy_at(backward, "add_statement", title, "unsafe", note, statement=_AVERAGE.format(module=module)),
        words,
    )


def _alone(program: Program, sign: Sign) -> Finding | None:
    name, world = optimizer_of(program.optimizers, sign), int(sign.facts.get("ranks", 2))
    title = "wrap the model: `model = DistributedDataParallel(model)`"
    note = "Its backward averages the gradients. Make the optimizer from its parameters, and call the wrapper."
    weight = likely(0.6)  # that the ranks are to train one model is not seen
    headline = f"{world} ranks train apart: nothing averages their gradients"
    text = "A DistributedSampler divides the data among the ranks, and the model is in no DistributedDataParallel. No "
    text += "collective changed gradients or parameters, so each rank trains a model of its own."
    spans = span_of("cause", sign.stack, "fills `.grad` on this rank alone")
    remedies = (Remedy("wrap_model", title, "display", note),)
    because = f"at {sign.count} steps of {name} no collective had changed a gradient or a parameter"
    return Finding(*weight, headline, text, spans, remedies=remedies, because=because)
