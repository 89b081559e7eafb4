"""GD202: retain_graph=True had silenced a backward-twice error, and now the versions differ."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.finding import Finding, distinct
from graphdoc.model import Span
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import span
from graphdoc.program.update_function import scene
from graphdoc.remedies.alongside import flagged_calls
from graphdoc.remedies.update_order import covered_remedies, uses
from graphdoc.story import overwrite
from graphdoc.story.message_alone import of_overwrite
from graphdoc.story.older_graph import calls_of, cause_places, constant_places, flow, names_of, several
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD202",
    title="retain_graph=True keeps an old graph, whose weights have been updated since",
    families=("graph-reuse",),
    what_happened="""\
The program once failed with *Trying to backward through the graph a second time*, whose text proposes
`retain_graph=True`. With the flag that message is gone and another one comes: *modified by an inplace operation*. The
fault is the same as before. A tensor of an earlier iteration or of another objective still connects this loss to an old
graph. The flag has kept that graph walkable, so backward goes through it again, and finds that the optimizer has
changed the weights in the meantime.""",
    why="""\
`retain_graph=True` tells backward not to free the saved tensors. It does not copy them. What a layer saves of its
weight is a reference to the parameter itself, with the version that it had; `optimizer.step()` writes into the same
memory and raises the version. Walking the old graph again would multiply the gradients of the old activations with the
new weights: a derivative of nothing. Hence the check.

Where no parameter was saved (or a fused optimizer wrote without counting) the flag does silence everything, and the
program runs on with a graph that grows by one iteration in every iteration: slower each time, more memory each time,
and old losses counted again.""",
    example="""\
hidden = torch.zeros(1, 16)
for x, y in batches:
    hidden = cell(x, hidden)
    loss = F.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)   # silences the first error ...
    optimizer.step()                   # ... and causes the second""",
    use_instead="""\
hidden = torch.zeros(1, 16)
for x, y in batches:
    hidden = cell(x, hidden)
    loss = F.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    hidden = hidden.detach()           # the cause of both""",
    fix_safety="""\
Unsafe, as is the fix of the fault below: detach what is carried, stored or used as a constant, and *then* take the flag
out. Removing `retain_graph=True` alone brings the first message back, and that is a good way to find the place: it
names the same old graph.

Leave the flag where it has a reason of its own: two gradients of one graph with no step in between (a gradient penalty,
the norm of one term, the first of two losses). There the graph is walked again before any weight changes.""",
    not_this="""\
- No earlier backward has gone through the stale part; it was computed before the step and is differentiated for the
  first time: `optimizer-step-before-backward`.
- The faults below, without the flag: `carried-state`, `stored-with-graph`, `undetached-target`, `graph-built-once`,
  `accumulated-loss`.
- The stale tensor is an activation or a buffer, not a parameter: `inplace-on-saved-activation`,
  `buffer-updated-in-place`.""",
    references=("torch.Tensor.backward", links.SAVED_TENSORS, links.IN_PLACE),
)


@of_overwrite(PAGE.title, Fault.COVERED_UP)
def recognise(program: Program, found: Overwrite) -> Finding:
    """The graph: a stale parameter in a part that an earlier call walked and kept, and that does not belong here."""
    strength, confidence = overwrite.trust(found, 0.97)
    if confidence == "certain" and not found.surely_covered_up:
        confidence = "likely"
    reuse = found.reuse if found.reuse is not None and found.reuse.carries else None
    names = names_of(reuse.carries, 2) if reuse is not None else ""
    what = f"{names} connect{'' if several(names) else 's'}" if names else "A tensor connects"
    behind = reuse.behind if reuse is not None else found.behind
    title = f"{what} this loss to a graph from before a step, kept by `retain_graph=True`" if names else PAGE.title
    text = f"`retain_graph=True` keeps the graph, not the weights. The old graph needs {overwrite.quoted(found)} as it "
    text += "was before the step. The fault is the connection of this loss to it: part the two and drop the flag."
    calls = [*overwrite.failed_spans(program.evidence, found)]  # where no older part is known
    if reuse is not None:
        calls = [*flow(reuse), *calls_of(program, reuse)]
    causes = _causes(program, found, reuse)
    spans = (*causes, *overwrite.write_spans(found), *overwrite.saved_spans(found), *calls)
    facts = (*overwrite.facts_of(program, found), f"the old part was computed from {folded(behind)}")
    remedies, because = covered_remedies(program, found), overwrite.reason(program, found)
    covers = "GD1" if reuse is not None else ""
    return Finding(strength, confidence, title, text, spans, facts, remedies, covers, because)


def _causes(program: Program, found: Overwrite, reuse: Reuse | None) -> list[Span]:
    """The places of the fault below, then a call with the flag."""
    label = "this connects the loss to the old graph"
    places: tuple[Span, ...]
    if reuse is None:
        at = scene(program, found)
        taken = [span("cause", f, label) for f in uses(program, found, at)]
        places = distinct((*taken, *overwrite.forwards_before(found, at.lines if at is not None else ())))
    elif reuse.slices is not None:
        tie = "takes its row of a buffer that ties the losses together"
        places = (span("cause", reuse.slices.read, tie),)
    elif reuse.lifetime in (Lifetime.SAME_PASS, Lifetime.UNKNOWN):
        carries = reuse.earlier if reuse.in_earlier_loss and reuse.earlier else reuse.carries
        places = constant_places(carries, label)
    else:
        places = cause_places(program, reuse, label)
    flags = [
        span("cause", f, "retain_graph=True keeps the old graph")
        for f in flagged_calls(program.sources, program.evidence.events, found)
    ]
    lines = list({(s.file, s.line): s for s in reversed(places)}.values())[::-1]
    return [*lines[: 2 if flags else 3], *flags[:1]]
