"""GD206: a parameter is overwritten between forward and backward by something that is no optimizer."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.spans import span
from graphdoc.program.update_function import scene
from graphdoc.program.writers import written
from graphdoc.remedies.in_place_write import hook_of
from graphdoc.remedies.update_order import AGAIN, overwritten_remedies
from graphdoc.story import overwrite
from graphdoc.story.message_alone import of_overwrite

PAGE = Page(
    code="GD206",
    title="A parameter was overwritten between the forward pass and its backward",
    families=("graph-reuse",),
    what_happened="""\
The forward pass used a parameter, something wrote into it, and then came the backward that needs the old values. No
optimizer was at work: it was `load_state_dict` (restoring the start of an inner loop, loading a checkpoint), a soft
update of a target network (`copy_`, `lerp_`, `mul_().add_()`), weight clipping (`clamp_`), a re-initialisation, a
perturbation of the weights that is taken back (`add_` … `sub_`), or an embedding that renormalises the rows it looks up
(`max_norm=`). The write is often in another class than the loss.""",
    why="""\
A layer saves a reference to its weight, not a copy, together with the version that the weight has. `load_state_dict`
copies into the existing parameters and raises each version by 1; so do `copy_`, `lerp_` and `clamp_` under
`torch.no_grad()`, and `mul_().add_()` raises it by 2. That the values return to what they were (perturb, restore) does
not matter to the counter, nor can PyTorch know it.

Three ways of writing are *not* counted: through `.data` (`p.data.copy_(q)`), by assigning `p.data = q`, and
`torch.nn.utils.vector_to_parameters`, which does the latter. Of these `p.data.copy_` is the dangerous one: backward
runs and multiplies with the new values. With `p.data = q` the graph goes on holding the old memory, and the gradient is
right.""",
    example="""\
start = copy.deepcopy(net.state_dict())
for task in tasks:
    adapt(net, task)
    query_losses.append(task.query_loss(net))
    net.load_state_dict(start)               # writes into the weights that the loss used
torch.stack(query_losses).mean().backward()""",
    use_instead="""\
start = copy.deepcopy(net.state_dict())
meta_grads = [torch.zeros_like(p) for p in net.parameters()]
for task in tasks:
    adapt(net, task)
    grads = torch.autograd.grad(task.query_loss(net), list(net.parameters()))
    meta_grads = [m + g / len(tasks) for m, g in zip(meta_grads, grads)]
    net.load_state_dict(start)               # nothing needs the adapted weights any more
for p, g in zip(net.parameters(), meta_grads):
    p.grad = g""",
    fix_safety="""\
Unsafe in most cases, because the write or the backward moves and the order of the two is part of the algorithm.

- **Write after the backward** (soft update, clipping): the usual order. Losses that are computed later see the new
  values, as they did before.
- **Backward before the write** (restore after an inner loop): differentiate each loss while its weights are in place.
- **No gradient through the overwritten network** (a target network in a TD target): compute its output under
  `torch.no_grad()`. Nothing of it is saved then, and the update may come at any time.
- **Keep the network and pass weights** (second-order meta-learning): `torch.func.functional_call(net, weights, (x,))`
  with the adapted weights as tensors of their own. Nothing is written in place.

Switching to `.data` is no fix: it removes the counter, not the overwrite.""",
    not_this="""\
- An optimizer stepped in between: `optimizer-step-before-backward`, `retain-graph-cover-up`.
- The loss takes the overwritten network's output as a target, with its graph: `undetached-target`.
- The tensor is no parameter: `buffer-updated-in-place`, `state-overwritten-in-place`.
- The writing line itself raises *a leaf Variable that requires grad is being used in an in-place operation*:
  `inplace-on-leaf`.""",
    references=(links.IN_PLACE, links.LOAD_STATE_DICT, "torch.no_grad", "torch.func.functional_call"),
)


@of_overwrite(PAGE.title, Fault.PARAMETER)
def recognise(program: Program, found: Overwrite) -> Finding:
    """The graph: a stale parameter whose first write since it was saved is no optimizer's step."""
    at = scene(program, found)
    writer = found.writers[0] if found.writers else None
    hook = hook_of(program.sources, writer) if at is not None and at.order == "within" else []
    title = f"{overwrite.quoted(found)} is overwritten between forward and backward"
    causes, remedies = _causes(program, found, hook), overwritten_remedies(program, found)
    return overwrite.finding(program, found, 0.96, title, _explain(found, hook), causes, remedies)


def _explain(found: Overwrite, hook: list[Frame]) -> str:
    """Who wrote, and when it should write instead."""
    who = overwrite.first_writer(found)
    if hook:
        return (
            f"{who} runs as a forward hook, inside the forward that has just saved {overwrite.quoted(found)}: each "
            "pass overwrites what its own backward needs. Let it write before the layer computes, or after the step."
        )
    advice = (
        "This loss is not meant to train what lies there: it can take the value as a constant."
        if found.constant
        else AGAIN
        if found.repeats
        else "Let it write after the backward, or run the forward on clones of the parameters."
    )
    return (
        f"{who} overwrote {overwrite.quoted(found)} after a forward pass had saved it, and this backward still "
        f"needs the old values. {advice}"
    )


def _causes(program: Program, found: Overwrite, hook: list[Frame]) -> list[Span]:
    """The write as the user calls it; the forward that ran before it, or the value that should be a constant."""
    writer = found.writers[0] if found.writers else None
    at = scene(program, found)
    out: list[Span] = []
    if writer is not None and writer.frame is not None:
        text = f"{overwrite.readable(writer)} overwrites {overwrite.quoted(found)}"
        out.append(span("cause", writer.frame, text, written(program.nodes, writer)))
    if hook:
        return [*out, *(span("cause", f, "registered to run after the layer") for f in hook[:2])]
    # That of the parameter that the title names comes first: it may be another network's than the first in the text.
    lines = sorted(at.lines, key=lambda f: found.node not in found.ran_in(f)) if at is not None else []
    return [*out, *overwrite.forwards_before(found, lines[:2], "the values from before")]
