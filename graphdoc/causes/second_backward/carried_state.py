"""GD101: a tensor kept from one iteration to the next brings the last iteration's graph along."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.causes.second_backward import told
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program.container_entries import dropped_detaches
from graphdoc.program.expression_values import Reset, can_detach, resets_of, written_into_given
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program, of_one_step
from graphdoc.program.proof import Proof
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import moment, span, where
from graphdoc.story import older_graph
from graphdoc.story.message_alone import of_older_graph
from graphdoc.story.wording import in_number, listing

PAGE = Page(
    code="GD101",
    title="State carried over from the previous iteration still holds that iteration's graph",
    families=("graph-reuse",),
    what_happened="""\
A tensor computed in one iteration is kept and used again in the next: the hidden state of an LSTM, a memory, a running
average, the previous output. A tensor is more than its numbers. Its `grad_fn` points at the computation that produced
it, and through it at everything before, so the new loss is connected to the last iteration's graph and `backward()`
walks on into it. The last `backward()` has already freed that part. This is why the first iteration works and a later
one fails, although `backward()` is written only once in the program.

A reset in place does not end this: `state.zero_()` is an operation on the tensor as it was, and leaves it the old
graph.

It need not be the second iteration. The error comes when the carried tensor first reaches a loss again: on the next
batch, at the start of the second epoch, or a week of time steps later when an old entry of a queue is read.""",
    why="""\
To differentiate an operation PyTorch needs some of its inputs or its result: `tanh` its result, a product both its
factors. These *saved tensors* take most of the memory of a training step. `backward()` runs every node of the graph
once and frees what it saved right after. A node that is reached again has nothing to compute with, and PyTorch
raises rather than make up a gradient.

The check belongs to the node, not to the tensor. `+`, `-`, `sum`, `mean`, `view`, `cat` and slicing save nothing and
can be gone through any number of times. A carried tensor that was made by such operations alone raises nothing: with
`h = h + w` in a loop, the gradient of `w` is 1, then 2, then 3, and the graph grows with every iteration.

The same fault has a second face. If this backward is the first to walk the carried part (the last loss did not use it),
nothing was freed, but the optimizer has changed the weights in the meantime: then the error is *modified by an inplace
operation*.""",
    example="""\
hidden = torch.zeros(1, 16)
for x, y in batches:
    hidden = cell(x, hidden)
    loss = F.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
    use_instead="""\
hidden = torch.zeros(1, 16)
for x, y in batches:
    hidden = cell(x, hidden)
    loss = F.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    hidden = hidden.detach()  # the numbers go on, the graph ends here""",
    fix_safety="""\
Unsafe: `.detach()` changes no number of the forward pass, but it decides how far back in time gradients reach. After it
a loss trains the weights through the current iteration alone, which is called truncated backpropagation through time
and is what a loop with one backward for each step nearly always means.

Three ways to cut wrongly:

- **Too early.** Cut after the step, not where the state is written. `hidden = cell(x, hidden).detach()` followed by
  `loss = f(head(hidden))` ends the error and leaves `cell` without any gradient.
- **By half.** An LSTM carries `h` *and* `c`; a dict or a dataclass may carry more. With one of them cut, the error
  moves to the other.
- **Not at all.** `hidden.detach()` as a statement of its own has no effect, since it returns a new tensor.
  `hidden.zero_()` sets the numbers and adds a node to the graph, so it does not cut either.

Where gradients are meant to cross iterations, add up the losses of a window of steps, call `backward()` once at its end
and detach there. `retain_graph=True` is no way out: it keeps every past graph in memory, makes each backward longer
than the last, and after an optimizer step it turns into the version error (`retain-graph-cover-up`).""",
    not_this="""\
- Tensors of many steps lie in a list or a buffer, and several updates read them: `stored-with-graph`.
- The tensor was computed once, before the loop, and is never renewed: `graph-built-once`.
- What is carried is the loss itself, as a sum: `accumulated-loss`.
- The tensor is a constant for this loss and belongs to another optimizer's network: `undetached-target`.
- Both backward calls stand in the same iteration: `shared-subgraph-losses` or `repeated-backward`.""",
    references=(links.SAVED_TENSORS, links.GRAPH_HISTORY, "torch.Tensor.detach"),
)


@of_older_graph(PAGE.title)
def recognise(program: Program, reuse: Reuse) -> Finding | None:
    """The graph: an edge into a pass before an earlier backward, from an expression that was evaluated again since.

    Certain where the newer result of the expression depends on the older one; likely where the expression ran again
    beside it, or a statement binds the value's own name to what it makes of it, and where all rounds are of one step:
    the gradient may be meant to go through all of them.
    """
    return _told(program, reuse) if reuse.lifetime is Lifetime.RECURS else None


def _told(program: Program, reuse: Reuse) -> Finding:
    if resets := resets_of(program.evidence, reuse.carries, reuse.failing):
        return _reset(program, reuse, resets)
    named = older_graph.names_of(reuse.carries)
    what = named or "A tensor"
    carry, their, them = in_number(older_graph.several(named), "carry their them")
    proven = any(c.recurrent for c in reuse.carries) and not of_one_step(program, reuse)
    title = f"{named} {carry} the last iteration's graph into this one" if named else PAGE.title
    text = f"This iteration's loss uses {named or 'a tensor'} from {'after' if reuse.kept_behind else 'before'} the "
    text += f"earlier backward call, with {their} old graph. {_since(program, reuse)}. Detach {them} once each "
    text += "iteration: that keeps the numbers and drops the graph."
    weight = Proof.OLDER_EDGE.at(0.95 if proven else 0.85, proven)
    because = _because(program, reuse, what) + older_graph.cloned(program, reuse)
    return told(program, reuse, weight, title, text, _kept(program, reuse), because)


def _reset(program: Program, reuse: Reuse, resets: list[Reset]) -> Finding:
    """The value comes in through a write that gives the tensor new numbers, and was to be the end of the old ones."""
    named = older_graph.names_of(reuse.carries) or listing(f"`{r.path}`" for r in resets)
    recorded = all(r.node is not None for r in resets)
    are, them = in_number(older_graph.several(named), "are them")
    label = "gives the tensor new numbers, and leaves it the graph of the last iteration"
    how = f"is {'an operation on the tensor as it was' if recorded else 'not recorded'}, so its graph stays"
    title = f"{named} {are} reset in place, which keeps the last iteration's graph"
    text = f"The reset at {where(resets[0].frame)} {how}. {_since(program, reuse)}. Detach {them} before the reset, or "
    text += "begin with a new tensor."
    places = [span("cause", r.frame, label, moment(r.node)) for r in resets[:3]]
    weight = Proof.OLDER_EDGE.at(0.95, recorded)
    return told(program, reuse, weight, title, text, places, _because(program, reuse, named))


def _kept(program: Program, reuse: Reuse) -> list[Span]:
    """Where the value is kept and made; before these, a detach whose result nobody keeps."""
    written = written_into_given(program, reuse)
    if written:
        label = "writes what has a graph into a tensor that this function was given"
        return [span("cause", f, label) for f in written[:3]]
    files = dict.fromkeys(s.file for s in older_graph.flow(reuse))
    ignored = [
        span("cause", f, "this returns a new tensor, and nobody keeps it: the graph is not cut")
        for f in dropped_detaches(program.sources, files)
        if can_detach(program, f)
    ][:1]
    kept = "kept here with its graph, and used again in the next iteration"
    places = older_graph.cause_places(program, reuse, kept, "made here with its graph")
    return [*ignored, *places[: 3 - len(ignored)]]


def _since(program: Program, reuse: Reuse) -> str:
    """What has become of the older graph, as a sentence."""
    if older_graph.stepped_since(program, reuse):
        return f"Since then {older_graph.STEPPED}"
    return "The earlier call has freed that graph"


def _because(program: Program, reuse: Reuse, what: str) -> str:
    were, their = in_number(older_graph.several(what), "were their")
    if older_graph.stepped_since(program, reuse):
        return f"{what} {were} computed {older_graph.before(reuse)} and never detached; {older_graph.STEPPED}"
    if reuse.kept_behind and reuse.freeing is not None:
        used = older_graph.numbered(reuse.journal, reuse.freeing)
        return f"{what} {were} computed from values whose graph {used} had freed, and {were} never detached"
    return f"{what} {were} computed {older_graph.before(reuse)}, which freed {their} graph, and {were} never detached"
