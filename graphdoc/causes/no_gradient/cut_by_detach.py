"""GD302: the value that the loss is built from was detached, so nothing before it can learn."""

from __future__ import annotations

from typing import Any

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Cut
from graphdoc.finding import Finding, Remedy, edit_at
from graphdoc.program.cuts import cut_by_choice, handed_on_together
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost
from graphdoc.remedies.recording import open_at_cut, open_at_others
from graphdoc.story import missing_graph
from graphdoc.story.wording import as_called

PAGE = Page(
    code="GD302",
    title="The value that the loss is built from was detached from the graph",
    families=("no-graph", "legacy"),
    what_happened="""\
Between the network and the loss stands `.detach()`, `.data`, `Variable(…)` or `nn.Parameter(…)`. It gives the same
numbers without their history. If that is the only way from the parameters to the loss, the loss has no `grad_fn` and
`backward()` fails; if other ways remain, nothing fails and the part before the cut silently does not learn.

The usual places: a module that detaches what it returns because somebody once plotted it; a value that was detached
for a target and is now used for the loss as well; `x.data` or `Variable(x)` from code older than PyTorch 0.4; the
arguments of the loss the wrong way round, so that the prediction is the detached one.

`loss = Variable(loss, requires_grad=True)` makes a loss that `backward()` accepts, and that trains nothing.""",
    why="""\
`detach()` is how one says *treat this as a constant*, and autograd takes it literally: the result is a leaf that does
not require gradients. Everything computed from such leaves alone does not require gradients either, and `backward()`
has no node to start from: *element 0 of tensors does not require grad and does not have a grad_fn*.

`detach()` shares memory with its source and keeps the version counter, so a later in-place write is still noticed.
`.data` cuts in the same way but also hides such writes, which turns an error into a wrong gradient.""",
    example="""\
class Encoder(nn.Module):
    def forward(self, x):
        h = self.net(x)
        self.last = h
        return h.detach()  # meant for self.last


loss = F.mse_loss(encoder(x), y)
loss.backward()""",
    use_instead="""\
class Encoder(nn.Module):
    def forward(self, x):
        h = self.net(x)
        self.last = h.detach()  # the copy that is kept needs no graph
        return h


loss = F.mse_loss(encoder(x), y)
loss.backward()""",
    fix_safety="""\
Unsafe: taking the `.detach()` away lets gradient flow into everything before it. That is the purpose when the value
is the model's prediction. It is wrong when the value was meant as a constant (a target, an advantage, a teacher, a
baseline); then the `.detach()` is right where it stands and the loss is missing another term, or the two arguments
are exchanged.

Two calls may have to go. Detaching again after the first one was removed gives the same error from the next line.

`loss.requires_grad_()` ends the error and leaves every parameter without gradient.""",
    not_this="""\
- The values went through `.item()`, a list or NumPy: `cut-by-conversion`.
- Gradient recording was off when the value was computed; `detach` then changed nothing: `cut-by-no-grad`.
- The detached value was a target, and the other side has no graph because its parameters are frozen:
  `frozen-parameters`.""",
    references=(
        "torch.Tensor.detach",
        ("torch.autograd: in-place operations and Variable.data", "autograd.html"),
        links.GRAPH_HISTORY,
    ),
)


_UNSEEN = "`.detach()` or `.data` on the only way from the network to the loss."


def recognise(program: Program) -> Finding | None:
    """The first detach on the loss's way."""
    cut = missing_graph.find_cut(program, "detach")
    if cut is None:
        return missing_graph.unseen(program, 0.26, PAGE.title, _UNSEEN)
    return _told(program, cut) if not cut_by_choice(program, cut) else None


def _told(program: Program, cut: Cut) -> Finding:
    sign = program.evidence.as_if
    whole = sign is not None and sign.kind == "constant-term"  # every term that was detached, or the rest trains nobody
    cuts = missing_graph.alike(program.cuts, cut) if whole else [cut, *missing_graph.of_other_terms(program, cut)]
    beside = [*missing_graph.of_other_parameters(program, cut), *handed_on_together(program, cut)]
    cuts += [c for c in beside if not any(c is known for known in cuts)]
    frames = [f for c in cuts if (f := innermost(c.stack)) is not None]
    edits: list[dict[str, Any]] = [edit_at("drop_call", f) for f in frames]
    title, note = f"Keep the graph: drop {as_called(cut.op)}", missing_graph.kept_note(cut)
    others = open_at_others(program, cuts)
    left = "; and ".join(filter(None, (open_at_cut(program, cut), others)))
    remedies = (
        (Remedy("several", title, "unsafe", note, {"edits": edits}, others),)
        if len(edits) > 1
        else tuple(Remedy("drop_call", title, "unsafe", note, e["args"], left) for e in edits)
    )
    of = as_called(cut.op)
    title = f"{of} cuts the graph of the loss"
    text = f"At {missing_graph.same_line(cut)} {of} ends the graph: the result is a constant for autograd. "
    if cut.certain:
        text += "Nothing else connects the loss with a parameter, so `backward()` has nothing to follow."
    else:
        title = f"the loss has no graph, and {of} ends one before it"
        text += "That the loss is built from it was not seen: it may have been put in the place of what was."
    spans, facts = (
        missing_graph.story(program, cut, f"{of} ends the graph here"),
        missing_graph.facts_of(program.cuts, cut),
    )
    return Finding(*missing_graph.weigh(program, cut), title, text, spans, facts, remedies)
