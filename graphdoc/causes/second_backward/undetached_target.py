"""GD103: what should be a constant for this loss carries the graph of another objective."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.causes.second_backward import told
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, distinct
from graphdoc.model import Span
from graphdoc.program.carried_names import Carried
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.proof import Proof
from graphdoc.program.reuse import CONSTANT, Reuse, Role
from graphdoc.program.spans import code_at, span, span_of
from graphdoc.remedies.fix_places import frame_at
from graphdoc.remedies.reused_graph import remedies_for
from graphdoc.remedies.update_order import overwritten_remedies
from graphdoc.story import older_graph
from graphdoc.story.message_alone import of_older_graph
from graphdoc.story.overwrite import called, failed_spans, first_writer, saved_spans, trust, write_spans
from graphdoc.story.overwrite import facts_of as versions_of
from graphdoc.story.wording import all_told, folded, listing

PAGE = Page(
    code="GD103",
    title="A target or advantage, meant as a constant, carries another network's graph",
    families=("graph-reuse",),
    what_happened="""\
Two networks have a loss and an optimizer each, and the output of one enters the loss of the other: the critic's value
as the advantage of a policy, the target network's estimate as a TD target, a teacher's output, the generator's image
given to the discriminator. For that loss the value is meant to be a number to compare with. As a tensor it still has
its `grad_fn`, so the backward of one loss runs on through the *other* network and frees that network's graph. The
other loss then finds it gone, or this one does if it comes second.""",
    why="""\
Autograd does not know which loss was written for which network. It follows every edge from the loss down to the leaves,
computes a gradient for every parameter that it meets, and frees the saved tensors on the way. An optimizer plays no
part in this: it only decides which of the accumulated gradients are used.

The crash is the lucky outcome. Where both graphs happen to be fresh, nothing is raised, and the foreign loss adds its
gradient to the critic's or generator's `.grad`, where that network's own optimizer takes it unless `zero_grad()` comes
in between.""",
    example="""\
value = critic(obs)
advantage = returns - value                 # carries the critic's graph
critic_optimizer.zero_grad()
advantage.pow(2).mean().backward()          # frees it
critic_optimizer.step()

actor_loss = -(log_prob * advantage).mean()
actor_loss.backward()                       # walks into the critic again""",
    use_instead="""\
value = critic(obs)
advantage = returns - value
critic_optimizer.zero_grad()
advantage.pow(2).mean().backward()
critic_optimizer.step()

actor_loss = -(log_prob * advantage.detach()).mean()  # a constant for the actor
actor_loss.backward()""",
    fix_safety="""\
Unsafe: after `.detach()` this loss sends no gradient into the network that made the value. That is what algorithms with
separate optimizers (actor-critic, DQN, the discriminator's step of a GAN, distillation) call for. Who owns which
parameter confirms it: the loss must not lose a parameter that its own optimizer holds.

Detach at the *use*, not where the value is computed: the network's own loss still needs the graph. A value that no loss
differentiates (a target network, a teacher) is better computed under `torch.no_grad()`, which saves the memory as well.

Adding the two losses and calling `backward()` once also ends the error, and changes the training: the critic is then
trained by the actor's loss too. Where the other network's gradient is truly wanted (a generator trained through its
discriminator, an actor trained through `critic(obs, actor(obs))`) do not detach: see `optimizer-step-before-backward`
for the right order.""",
    not_this="""\
- The shared part leads to parameters that *both* losses train, with one optimizer: `shared-subgraph-losses`.
- The value comes from the previous iteration of the same network: `carried-state`.
- It was stored in a rollout and several updates read it: `stored-with-graph`.
- The message is *modified by an inplace operation*, and the other optimizer has stepped already. The same `.detach()`
  is right if the value is a constant: `optimizer-step-before-backward`. Where no step but a copy wrote (the soft update
  of a target network whose estimate came in with its graph), it is this fault.""",
    references=("torch.Tensor.detach", "torch.no_grad", links.GRAPH_HISTORY),
)


@of_older_graph(PAGE.title)
def recognise(program: Program, reuse: Reuse) -> Finding | None:
    """The graph: what lies behind the shared part belongs to another optimizer than the one this loss is for."""
    found = program.overwrite
    if found is not None and found.fault is Fault.CONSTANT:
        return _overwritten(program, reuse, found)
    if reuse.role not in CONSTANT or reuse.lifetime not in (Lifetime.SAME_PASS, Lifetime.UNKNOWN):
        return None
    both = reuse.lifetime is Lifetime.SAME_PASS and reuse.role is Role.DATA
    return (_data_of_both if both else _of_another)(program, reuse)


def _of_another(program: Program, reuse: Reuse) -> Finding:
    """A value of one objective in the loss of another. What proves it: the optimizers of the calls, and who owns what
    lies behind the value, are known, and they have nothing in common."""
    carries = _edges(reuse)
    what = older_graph.names_of(carries, 2) or "a value"
    whose = "The earlier loss" if reuse.in_earlier_loss else "This loss"
    remedies = remedies_for(program, reuse)
    taken = _taken_for_another(program.sources, remedies)
    weight = Proof.OLDER_EDGE.at(0.93 if reuse.meant_known else 0.7, reuse.owned_by_others and not taken)
    text = f"{whose} takes {what} with {'their' if ' and ' in what else 'its'} graph. That graph leads to "
    text += f"{folded(reuse.behind) or 'other parameters'}, {older_graph.trained_by(program, reuse.behind)}. For "
    text += f"{whose[0].lower()}{whose[1:]} they are constants. Two backward calls go through one graph, and the first "
    text += "one has freed it."
    spans = (
        *taken,
        *_places(reuse, carries),
        *older_graph.flow(reuse),
        *older_graph.steps_of(program, reuse),
        *older_graph.calls_of(program, reuse),
    )
    facts = older_graph.facts_of(program, reuse)
    return Finding(*weight, _title(reuse, what), text, spans, facts, remedies, because=_because(program, reuse))


def _taken_for_another(sources: SourceTexts, remedies: tuple[Remedy, ...]) -> tuple[Span, ...]:
    """Where the failing loss takes the older of two values, the newer of which nothing reads."""
    out: list[Span] = []
    for r in (r for r in remedies[:1] if r.kind == "use_instead" and str(r.args["name"]).isidentifier()):
        at, path = frame_at(r.parts[0]), str(r.args["operand"])
        label = f"reads the value of an earlier update; nothing reads `{r.args['name']}`, computed for this loss"
        whole = replace(at, end_line=at.line, end_column=at.column + len(path)) if at.column > 0 else at
        exact = code_at(sources, whole) == path
        out.append(span("cause", whole if exact else at, label))
    return tuple(out)


def _edges(reuse: Reuse) -> list[Carried]:
    """Where the value goes into the loss that has no business with it: the earlier one's edges where it is that one."""
    return reuse.earlier if reuse.earlier and reuse.in_earlier_loss and reuse.coupling is None else reuse.carries


def _places(reuse: Reuse, carries: list[Carried]) -> list[Span]:
    """The uses of the value as a constant; where the earlier loss is gone, those that the source shows of it."""
    uses: list[tuple[Frame, str]] = []
    if reuse.in_earlier_loss and not reuse.earlier:
        uses = older_graph.earlier_uses(reuse)
    earlier = [
        span("cause", frame, f"`{name}` is used here with its graph: this loss reaches the other network")
        for frame, name in uses
    ]
    return [
        *earlier[:2],
        *targets_of(reuse),
        *older_graph.constant_places(
            carries, _taken_in(reuse, earlier), "cause" if reuse.coupling is None and not earlier else "related"
        ),
    ]


def _taken_in(reuse: Reuse, earlier: list[Span]) -> str:
    """What the loss at the found edges does with the value; of the failing one where ``earlier`` are the other's."""
    if earlier and reuse.coupling is None:
        return "taken in here by the loss that trains it"
    if reuse.owners:
        return "used here with its graph: this loss reaches the other network"
    return "used here with a graph that no optimizer trains"


def _data_of_both(program: Program, reuse: Reuse) -> Finding:
    """What two losses share, and neither of them is to train."""
    what = older_graph.names_of(reuse.carries, 2)
    plural = older_graph.several(what)
    ours = listing(all_told(program.owners.optimizers, reuse.works_for[0] | reuse.works_for[1]))
    behind = f"{folded(reuse.behind)}, {older_graph.trained_by(program, reuse.behind)}"
    made = older_graph.made_places(reuse.carries, "made here with a graph that neither loss trains")
    title = f"{what} bring{'' if plural else 's'} a graph into two losses that neither of them trains"
    text = f"Both losses take {what or 'a value'} with its graph. That graph leads to {behind}. The losses are "
    text += f"for {ours}: for them it is data. The first backward call has freed that graph. Detach it."
    because = f"the graph leads to {behind}; the two losses are for {ours}"
    weight = Proof.OLDER_EDGE.at(0.93, reuse.both_seen)
    return told(program, reuse, weight, title if what else PAGE.title, text, made, because)


def _overwritten(program: Program, reuse: Reuse, found: Overwrite) -> Finding:
    """The connection is the fault, and the write only what made it fail: a number needs no old values."""
    names = older_graph.names_of(reuse.carries, 2)
    what, plural = names or "a value", older_graph.several(names)
    behind = f"{folded(reuse.behind)}, {older_graph.trained_by(program, reuse.behind)}"
    versions = versions_of(program, found)
    places = older_graph.constant_places(reuse.carries, "a constant for this loss, with its graph")[:2]
    writes = write_spans(found)
    weight = Proof.OLDER_EDGE.at(trust(found, 0.96)[0], reuse.owned_by_others and found.exact)
    title = f"{what} bring{'' if plural else 's'} the graph of an overwritten network into this loss"
    text = f"This loss takes {what} with {'their' if plural else 'its'} graph, which leads to {behind}. For this loss "
    text += f"they are constants. {first_writer(found)} overwrote {called(found.stale)} after that graph had saved it, "
    text += f"and this backward asks for the old values. Detached, {'they need' if plural else 'it needs'} none of "
    text += "them."
    spans = (
        *places[:1],
        *(replace(w, role="cause") for w in writes[:1]),
        *places[1:],
        *writes[1:],
        *saved_spans(found),
        *failed_spans(program.evidence, found),
    )
    because = f"the graph leads to {behind}; {versions[0]}"
    return Finding(*weight, title, text, spans, versions, overwritten_remedies(program, found), because=because)


def _title(reuse: Reuse, what: str) -> str:
    """The value by its name, and the loss that it has no business in."""
    loss = "an earlier loss" if reuse.in_earlier_loss else "this loss"
    if what == "a value":
        return PAGE.title
    return f"{what} bring{'' if older_graph.several(what) else 's'} another network's graph into {loss}"


def _because(program: Program, reuse: Reuse) -> str:
    """Who trains what lies behind, and whom the loss is for."""
    text = f"the graph leads to {folded(reuse.behind)}, {older_graph.trained_by(program, reuse.behind)}"
    ours = reuse.works_for[0] if reuse.in_earlier_loss else reuse.works_for[1]
    free = [o.id for o in program.optimizers if o.id in ours and not {*o.parameters} & reuse.behind]
    names = all_told(program.optimizers, free)
    if reuse.weighed_by is not None:
        text += "; the loss uses it as a factor only"
    if not names:
        return text
    return f"{text}; this loss is for {listing(names)}, which hold{'' if len(names) > 1 else 's'} none of them"


def targets_of(reuse: Reuse) -> tuple[Span, ...]:
    """Where each of two losses takes in what it only aims at."""
    if reuse.coupling is None:
        return ()
    used = [
        s
        for c in (*reuse.coupling.late, *reuse.coupling.early)
        if c.taken is not None
        for s in span_of("cause", c.taken.stack, "used here with its graph: this loss reaches the other network")
    ]
    aims = [span("cause", frame, f"what {loss} compares with") for frame, loss in reuse.coupling.places]
    return distinct((*distinct(used)[:2], *aims))[:3]
