"""GD102: a rollout, replay or history keeps tensors with their graph, and several updates use them."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.causes.second_backward import told
from graphdoc.finding import Finding
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.proof import likely
from graphdoc.program.reuse import Reuse, Role
from graphdoc.remedies.stored_graph import kept_places
from graphdoc.story import older_graph
from graphdoc.story.message_alone import of_older_graph
from graphdoc.story.wording import folded, in_number

PAGE = Page(
    code="GD102",
    title="A buffer stores tensors with their graph, and more than one update reads them",
    families=("graph-reuse",),
    what_happened="""\
While data is collected, tensors that come out of a network are put into a list, a replay memory or a rollout buffer:
log-probabilities, values, hidden states, features. Each entry keeps the graph of the forward pass that produced it.
Later several updates (epochs, minibatches, sampled episodes) read the buffer. The first backward that reaches an entry
frees the graph of it. The next update that reads the same entry, or one that shares a part of its graph (the
recurrent state of one rollout connects all its steps), finds it freed.

Where each update reads another entry, nothing is freed twice, and the first step makes the rest of the buffer stale:
the error is then *modified by an inplace operation*.""",
    why="""\
A backward frees the saved tensors of every node that it runs, whoever else still holds a tensor made by that node.
Storing the tensor keeps the node alive, not what the node has saved. Slicing, stacking or indexing the stored tensors
makes new nodes on top and leaves the old ones below as they were: freed.

Even where freeing is prevented with `retain_graph=True`, the stored graph is one of the *old* weights. After the first
optimizer step its backward fails with *modified by an inplace operation*, because its gradient would be that of a
network which no longer exists. Stored numbers stay valid as data; a stored graph is good for one update.""",
    example="""\
for obs in rollout:
    dist = policy(obs)
    action = dist.sample()
    memory.append((obs, action, dist.log_prob(action)))

for epoch in range(4):
    loss = -sum(log_prob * advantage(obs) for obs, action, log_prob in memory)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
    use_instead="""\
for obs in rollout:
    with torch.no_grad():
        dist = policy(obs)
        action = dist.sample()
        memory.append((obs, action, dist.log_prob(action)))  # plain data

for epoch in range(4):
    loss = 0.0
    for obs, action, old_log_prob in memory:
        log_prob = policy(obs).log_prob(action)  # computed again, with the weights of now
        ratio = (log_prob - old_log_prob).exp()
        loss = loss - ratio * advantage(obs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
    fix_safety="""\
Unsafe, because different changes end the error and only the purpose of the stored tensor tells which is right.

- **It is data for the update** (a starting hidden state, an old log-probability, a value used as baseline, a feature):
  detach it when storing, or collect under `torch.no_grad()`. No gradient is lost that the update was meant to have.
- **It is what the update trains** (the log-probability of a policy gradient, the prediction in a loss): detaching would
  leave nothing to train, and the next message is *element 0 of tensors does not require grad*. Store the inputs and the
  action, and compute the tensor again in every update. Where they are stored beside it already, the patch does that.
- **It was meant for one update**, and nothing empties the buffer: empty it after the step.

A buffer that is read by one single backward and then emptied needs neither.""",
    not_this="""\
- One tensor is carried from step to step, and each step has its own backward: `carried-state`.
- The tensors were computed once, before any update, by a network that the loop trains: `graph-built-once`.
- The stored tensor enters the loss of another network as a target or an advantage: `undetached-target`.
- What is gathered is the loss, in one sum that is differentiated again and again: `accumulated-loss`.""",
    references=(links.SAVED_TENSORS, "torch.Tensor.detach", "torch.no_grad"),
)


@of_older_graph(PAGE.title)
def recognise(program: Program, reuse: Reuse) -> Finding | None:
    """The graph: several results of one expression, made between the same two backward calls, used by several more.

    Never certain: that they are kept in a store is seen by the names that hold them.
    """
    if reuse.role is Role.REFERENCE and reuse.lifetime in (Lifetime.STORED, Lifetime.MADE_ONCE, Lifetime.SAME_PASS):
        return (_left if reuse.left_by_another_pass else _reference)(program, reuse)
    written = program.overwrite
    if written is not None and written.needed and written.one_of_several:
        return None  # each entry serves one update, and learns by it: a step comes before
    return _stored(program, reuse) if reuse.lifetime is Lifetime.STORED else None


def _stored(program: Program, reuse: Reuse) -> Finding:
    missing = reuse.lost
    named = older_graph.names_of(reuse.carries, 2)
    their, them, were = in_number(older_graph.several(named) or "…" in named, "their them were")
    title = f"{named} {were} stored with {their} graph, and several updates use {them}" if named else PAGE.title
    since = "an earlier update has freed that graph" if reuse.used_up else older_graph.STEPPED
    one = len(reuse.carries) == 1
    they, are, was, it, its = in_number(not one, "they are were them their")
    what = "1 tensor of this loss was" if one else f"{len(reuse.carries)} tensors of this loss were"
    advice = (
        f"Detached, {they} would leave {folded(missing)} without any gradient: keep what {they} {was} computed from, "
        f"and compute {it} again in each update."
        if missing
        else f"{they.capitalize()} {are} data for the updates: store {it} without {its} graph."
    )
    text = f"{what} stored earlier with {its} graph. {since[0].upper() + since[1:]}. {advice}"
    places = older_graph.cause_places(program, reuse, "stored here with its graph")
    because = f"{what} made {older_graph.before(reuse)}"
    because += f", which freed {its} graph" if reuse.used_up else f"; {older_graph.STEPPED}"
    because += older_graph.cloned(program, reuse)
    return told(program, reuse, likely(0.9), title, text, places, because)


def _reference(program: Program, reuse: Reuse) -> Finding:
    """One value from before the updates, which each of them compares with what it computes anew."""
    what = older_graph.names_of(reuse.carries) or "A value"
    many = older_graph.several(what)
    are, were, hold, its, them = in_number(many, "are were hold their them")
    it = "they are constants" if many else "it is a constant"
    title = f"{what} {are} kept for several updates and still {hold} the graph that made {them}"
    text = f"{what} {were} computed before the updates, and each update compares {them} with new values. There {it}: "
    text += f"{folded(reuse.own, 2)} {'learns' if len(reuse.own) == 1 else 'learn'} through the new value. The first "
    text += "update has freed the old graph. Detach what is kept."
    because = f"{what} {were} computed {older_graph.before(reuse)}, which freed {its} graph; "
    return _data(program, reuse, title, text, because + "the loss learns through new values")


def _left(program: Program, reuse: Reuse) -> Finding:
    """What the pass of another loss has left, taken by one that computes anew with the same parameters."""
    what = older_graph.names_of(reuse.carries, 2) or "A value"
    has, was, its = in_number(older_graph.several(what), "have were their")
    learns = "learns" if len(reuse.behind) == 1 else "learn"
    title = f"{what} {was} kept with {its} graph, which the pass of another loss has made and freed"
    text = f"{what} {has} the graph of the earlier loss's pass. The pass of this loss computes again with the same "
    text += f"parameters: {folded(reuse.behind, 2)} {learns} through that, and what the other pass has left is most "
    text += "likely data for it, as a teacher's output or a target is. Keep the numbers only. Where this loss is to "
    text += "learn through both, the earlier call has to keep its graph."
    because = f"{what} {was} computed {older_graph.before(reuse)}, which freed {its} graph; the pass of this loss "
    because += f"leads to {folded(reuse.behind, 2)}, too"
    return _data(program, reuse, title, text, because)


def _data(program: Program, reuse: Reuse, title: str, text: str, because: str) -> Finding:
    """The finding for a value that is data for the loss, told first where it is kept."""
    places = older_graph.cause_places(program, reuse, "kept here with its graph")
    kept = kept_places(reuse)
    first = [s for s in places if (s.file, s.line) in kept] or places
    return told(program, reuse, likely(0.9), title, text, first, because + older_graph.cloned(program, reuse))
