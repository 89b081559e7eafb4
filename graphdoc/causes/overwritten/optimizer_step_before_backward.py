"""GD201: parameters were stepped between a forward and a backward that still needs the old ones."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Optimizer
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.spans import where
from graphdoc.program.update_function import Scene, scene
from graphdoc.remedies.update_order import AGAIN, stepped_remedies
from graphdoc.story import overwrite
from graphdoc.story.message_alone import of_overwrite
from graphdoc.story.older_graph import keeping_places
from graphdoc.story.wording import listing

PAGE = Page(
    code="GD201",
    title="An optimizer stepped between the forward pass and the backward that still needs the old weights",
    families=("graph-reuse",),
    what_happened="""\
A forward pass ran with the weights of that moment. Then an `optimizer.step()` changed some of these weights in place,
and only afterwards `backward()` was called on a loss of that forward pass. The message speaks of "an inplace
operation", but no line of the program looks like one: the operation is the step, and the tensor is a parameter.

The message hides this. `[torch.FloatTensor [64, 1]], which is output 0 of AsStrided` is the weight of a
`Linear(64, 1)`, which is saved transposed (older wordings say `TBackward` or `AsStridedBackward0`). A message without
"which is output" means a leaf: the weight of a convolution, of a normalisation, of `nn.LSTM`, or a bare parameter.

Typical places: a GAN that scores the fakes, steps the discriminator and then differentiates the generator's loss; an
actor's loss that was computed before the critic's step; agents that are updated in turn from one joint forward pass;
the next state, encoded before the step and used after it.""",
    why="""\
Every tensor has a version counter (`tensor._version`) that each in-place write raises. An operation that saves a tensor
for backward notes the count, and backward compares. If they differ, the numbers that the derivative needs are gone:
they were overwritten, and PyTorch keeps no copy.

`SGD`, `Adam` and `RMSprop` raise the counter of each parameter by 1 per step, `AdamW` by 2 (weight decay and update).
The gap between the two versions in the message is the number of writes since the forward pass: 1 or 2 mean a single
step.

A layer needs its weight only for the gradient of its *input*. The first layer, fed with data, does not save it: a
network of one layer passes where one with two layers fails.

Before PyTorch 1.5 the steps were not counted: a program that "worked in 1.4" trained with a mixture of old activations
and new weights. `fused=True` optimizers do not raise the counter to this day (tried with `SGD`, `Adam`, `AdamW` and
`Adagrad` of 2.13 on a CPU): no error, the same wrong gradient (`stale-parameter-unseen`).""",
    example="""\
fake = generator(noise)
score = discriminator(fake)
d_loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()
g_loss = softplus(-score).mean()         # uses the discriminator of now

d_opt.zero_grad()
d_loss.backward()
d_opt.step()                             # changes it in place

g_opt.zero_grad()
g_loss.backward()                        # needs the one from before
g_opt.step()""",
    use_instead="""\
fake = generator(noise)
d_loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()
d_opt.zero_grad()
d_loss.backward()
d_opt.step()

g_loss = softplus(-discriminator(fake)).mean()  # scored again, after the step
g_opt.zero_grad()
g_loss.backward()
g_opt.step()""",
    fix_safety="""\
Unsafe: each of four changes is valid, and they differ in the weights that the gradient belongs to.

- **Forward again after the step.** The second loss sees the new weights: the updates alternate, as the usual recipes
  for GANs, SAC and TD3 have it. Costs one more forward pass of the network that was stepped.
- **Both backward calls before the first step.** Both gradients belong to the old weights: a simultaneous update. Each
  backward also fills the `.grad` of the *other* network, so clear it (`d_opt.zero_grad()` after `g_loss.backward()`) or
  take each gradient for its own parameters with `torch.autograd.grad(loss, parameters)`.
- **Detach,** if the stepped network's output is only a constant for this loss (an advantage, a target). Its gradient
  does not reach that network any more, which is then what is wanted: see `undetached-target`.
- **Forward with cloned parameters,** if the old weights' gradient is wanted and the step cannot move:
  `functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, (x,))`, or `F.linear(x, w.clone(),
  b.clone())` for one layer. The step writes into the parameters, the graph keeps the clones, and the gradient flows
  through `clone` to the parameters. Costs a copy of the weights. Where `net` holds a layer under two names
  (`self.first = self.features = …`), `tie_weights=False` as well: else that layer is left with the clone, for good.""",
    not_this="""\
- `retain_graph=True` stands in the program and the stale graph is one that an earlier backward has already gone
  through: `retain-graph-cover-up`. The real fault is a missing detach.
- A tensor computed before the step is carried into the next iteration: `carried-state` shows as this error too.
- The parameter was written by `copy_`, `load_state_dict`, a soft update or a clamp: `parameter-overwritten`.
- The message names `Sigmoid`, `Relu`, `Exp`, `Softmax` …: an activation was written, `inplace-on-saved-activation`.""",
    references=(links.IN_PLACE, links.SAVED_TENSORS, "torch.func.functional_call", links.OPTIM),
)


@of_overwrite(PAGE.title, Fault.STEPPED)
def recognise(program: Program, found: Overwrite) -> Finding:
    """The graph: a stale parameter whose first write since it was saved is an optimizer's step."""
    at = scene(program, found)
    reuse = found.reuse
    # A state that goes round and round is the better-known fault; both name the same tensor.
    recurrent = reuse is not None and reuse.lifetime is Lifetime.RECURS
    kept = reuse is not None and reuse.lifetime is Lifetime.STORED
    stored = kept and (found.constant or (not found.needed and bool(found.keeping_calls)))
    # Where all that this loss trains learns beside what was carried over as well, the connection is wrong, no order.
    beside = recurrent and not found.needed and not (reuse and reuse.lost)
    most, title = 0.8 if beside else 0.88 if recurrent or stored else 0.96, _title(program.optimizers, found)
    causes, remedies = _causes(found, at), stepped_remedies(program, found)
    told = overwrite.finding(program, found, most, title, _explain(found, at), causes, remedies)
    return replace(told, covers="GD1") if found.needed else told  # the connection is wanted: no fault of its own


def _title(optimizers: list[Optimizer], found: Overwrite) -> str:
    """The steps by their optimizers' own names, and the parameter that one of them has moved."""
    steps = overwrite.steps_of(found)
    names: list[str] = []
    for writer in steps:
        of = writer.event.optimizer if writer.event is not None else None
        known = next((o for o in optimizers if o.id == of), None)
        names.append(f"`{known.name}.step()`" if known is not None and known.name else f"`{writer.op}`")
    if len(set(names)) > 1:
        return f"{listing(names)} change parameters before a backward that needs their old values"
    step = names[0] if names else "a step"
    return f"{step} changes {overwrite.quoted(found)} before a backward that needs its old value"


def _causes(found: Overwrite, at: Scene | None) -> list[Span]:
    """The step, the forward that ran before it, and what keeps the result for a later iteration."""
    kept: tuple[Span, ...] = ()
    if at is not None and at.order == "carried" and found.reuse is not None and found.reuse.carries:
        kept = keeping_places(found.reuse, "what was computed before the step is kept here for later")[:1]
        kept = tuple(k for k in kept if not any((f.file, f.line) == (k.file, k.line) for f in at.lines))
    step, forwards = overwrite.stepped_and_before(
        found, at.lines[:2] if at is not None else (), overwrite.MOST_CAUSES - len(kept)
    )
    return [*step, *forwards, *kept]


def _explain(found: Overwrite, at: Scene | None) -> str:
    writer = found.writers[0] if found.writers else None
    step = f"{writer.op} at {where(writer.frame)}" if writer is not None and writer.frame is not None else "A step"
    forward = f"the forward at {where(at.forwards[0])}" if at is not None and at.forwards else "a forward pass"
    text = f"{step} changed {overwrite.quoted(found)} in place after {forward} had saved it. "
    text += "This backward still needs the weights from before."
    if found.repeats:
        return f"{text} {AGAIN}"
    if found.same_loss:
        return text + " The same loss is differentiated for both optimizers: call backward once, then make both steps."
    if found.constant:
        return text + " The loss is not meant to train what lies there: it can take the value as a constant."
    if at is not None and at.order == "late":
        return text + " Several steps lie between: give each forward clones of the weights."
    if found.failing is not None and found.failing.kind == "grad":
        return text + " Step after the call: it adds nothing to the gradients of the step."
    return text + " Run the forward again after the step, or give it clones of the weights."
