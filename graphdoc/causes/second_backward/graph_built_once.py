"""GD105: a part of the forward pass was computed once, before the loop, and every iteration uses it."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Sign
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign
from graphdoc.program.reuse import Reuse, Role
from graphdoc.program.spans import span_of
from graphdoc.remedies.reused_graph import remedies_for
from graphdoc.remedies.stored_graph import is_left_out
from graphdoc.story import older_graph
from graphdoc.story.message_alone import of_older_graph
from graphdoc.story.wording import folded, in_number, listing

ONCE = "computed once, with a graph that serves one backward call"
KEPT = "set once, to what has a graph that serves one backward call"
SILENT = "computed once, and as the parameters were then"
TAKEN = "enters a loss that trains nothing of what it was computed from"

PAGE = Page(
    code="GD105",
    title="Part of the forward pass was computed once and is used in every iteration",
    families=("graph-reuse", "silent"),
    what_happened="""\
A tensor that depends on parameters was computed a single time: before the training loop, in `__init__`, in a cached
property, in a memo or under `parametrize.cached()`. The loop only reads it. The first `backward()` goes through that
computation and frees it; the second one goes there again. The failing line often lies inside a library's `fit` or in
the loop, which are right; what is wrong is the line that ran before them.

`torch.autocast` does the same where one region surrounds several steps: it keeps the cast of each parameter until the
region ends. Every forward after the first step then computes with the first step's parameters.""",
    why="""\
PyTorch records the graph while the operations run. There is no second recording: a line that runs once makes its nodes
once, and they last for one backward. Everything that leads from a trained parameter to the loss has to run again in
each iteration.

Not only the graph would be old, the *value* is old as well. The optimizer changes the parameter, and the tensor that
was computed from it stays what it was at the start. Where the computation saves nothing (`points + offset`), no error
is raised at all, and the loss is evaluated for ever at the first value of the parameter.""",
    example="""\
weights = torch.softmax(logits, dim=0)     # once
for x, y in batches:
    loss = F.mse_loss((weights * x).sum(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
    use_instead="""\
for x, y in batches:
    weights = torch.softmax(logits, dim=0)  # with the parameter's value of now
    loss = F.mse_loss((weights * x).sum(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
    fix_safety="""\
Unsafe, since there are two readings and they train differently.

- **What made the tensor is to be trained** (its parameters are in an optimizer): compute it in the loop, or in
  `forward` instead of `__init__`. This is the usual case; `.detach()` would end the error and the learning.
- **The tensor is data** (features of a frozen encoder, a preprocessing network in no optimizer): compute it once under
  `torch.no_grad()`, or detach it once. No trained parameter loses its gradient.

`retain_graph=True` in every iteration does not do either: the value stays old, and as soon as the computation has saved
a parameter that is stepped, the version error follows.""",
    not_this="""\
- The tensor is renewed in every iteration from its former value: `carried-state`.
- There are many such tensors, gathered during a rollout: `stored-with-graph`.
- It belongs to another network's objective: `undetached-target`.
- The backward itself stands twice in the iteration: `shared-subgraph-losses`, `repeated-backward`.""",
    references=(links.GRAPH_HISTORY, links.SAVED_TENSORS, "torch.nn.utils.parametrize.cached"),
)


def recognise(program: Program) -> Finding | None:
    """The graph: the very node that the earlier call used up is used again, and nothing has made it anew since.

    Certain where all of it was made before the first backward call of the run, that call's own line fails again, and it
    is known whom the loss trains, so that neither another lifetime nor another role of the values is open.
    """
    cast = first_sign(program.signs, "cast-once")
    return _cast(program, cast) if cast is not None else _told(program)


@of_older_graph(PAGE.title)
def _told(program: Program, reuse: Reuse) -> Finding | None:
    if reuse.lifetime is not Lifetime.MADE_ONCE or reuse.role is Role.REFERENCE or not reuse.used_up:
        return None
    named = older_graph.names_of(reuse.carries, 2)
    if program.evidence.as_if is not None:
        return _unseen(program, reuse, named)
    apart = older_graph.kept_apart(reuse)
    computed, again = ("set", "set again") if apart else ("computed", "computed again")
    it, were = in_number(older_graph.several(named), "they were")
    clear = reuse.role is not Role.UNKNOWN and not reuse.may_be_held
    weight = Proof.OLDER_EDGE.at(0.9, reuse.made_before_all and clear and reuse.same_line)
    title = f"{named} {were} {computed} once, and every backward needs that one graph" if named else PAGE.title
    text = f"A part of this loss was {computed} once, before the earlier backward call, and not {again} since; that "
    text += f"call has freed its graph. {_advice(reuse.lost, reuse)}"
    spans = _places(program, reuse, apart)
    facts = older_graph.facts_of(program, reuse)
    because = f"{it} {were} made {older_graph.before(reuse)}, which freed its graph, and not {again}"
    return Finding(*weight, title, text, spans, facts, remedies_for(program, reuse), because=because)


def _unseen(program: Program, reuse: Reuse, named: str) -> Finding:
    """Nothing of it had to be freed, so PyTorch goes through it again and again."""
    owners = listing([f"`{o.name}`" for o in program.optimizers if o.id in reuse.owners and o.name])
    whose, [were] = folded(reuse.behind, 2) or "the parameters", in_number(older_graph.several(named), "were")
    title = f"{named or 'a value'} {were} computed once: the loss sees no step of {whose}"
    text = f"{owners or 'The optimizer'} updates {whose}, and this loss takes what was computed from their first "
    text += "values. PyTorch raises nothing: the computation saved no tensor that a backward call could free."
    spans = _places(program, reuse, apart=False)
    because = "several backward calls in a row went through the same old nodes, with steps of "
    because += f"{owners or 'the optimizer'} in between"
    return Finding(*Proof.STEPS.at(0.95), title, text, spans, remedies=remedies_for(program, reuse), because=because)


def _cast(program: Program, sign: Sign) -> Finding | None:
    """Autocast keeps what it casts until the region ends, and the steps are made inside of it."""
    sources, whose = program.sources, folded(sign.parameters) or "the parameters"
    region = older_graph.with_around(sources, sign.other, "autocast")
    once = span_of("created" if region else "cause", sign.stack, "casts the parameters, the first time only")
    step = span_of("related", sign.other, f"changes {whose} while autocast keeps their casts")
    title, note = "let autocast keep no casts", "Each forward then casts the parameters as they are."
    fix = "enter autocast for each forward, and leave it before the step"
    effect = "The casts are kept for one forward then, and each step is seen by the next one."
    words = Remedy("autocast_per_forward", fix, "display", effect)
    args = {"name": "cache_enabled", "value": "False"}
    text = "`torch.autocast` casts each parameter once and keeps the result until its region ends. The optimizer steps "
    text += "inside of the region, so every later forward computes with the parameters of the first one."
    return Finding(
        *Proof.STEPS.at(0.97),
        f"autocast keeps the first casts of {whose}: the loss sees no step",
        text,
        (*span_of("cause", region, "one region around several steps"), *once, *step),
        remedies=(*(remedy_at(region, "set_keyword", title, "safe", note, **args) if region else ()), words),
        because=f"{sign.count} steps ran inside of the region, and the graph still leads through the casts from before",
    )


def _places(program: Program, reuse: Reuse, apart: bool) -> tuple[Span, ...]:
    """What is to be computed again, and how it came into the loss: no line is told twice for its making."""
    context = older_graph.cached_context(reuse)
    aimed_at = reuse.role is Role.TARGET and reuse.owned_by_others and not reuse.lost
    taken = older_graph.use_places(reuse.carries, TAKEN)[:1] if aimed_at else ()
    kept, made = (KEPT, older_graph.MADE) if apart else (ONCE, ONCE)
    if program.evidence.as_if is not None:
        kept = made = SILENT
    once = (*context, *taken, *older_graph.cause_places(program, reuse, kept, made))[:3]
    steps: dict[tuple[str, int, str], Span] = {}
    for s in older_graph.flow(reuse):
        steps.setdefault((s.file, s.line, s.label), s)
    told = {"created": once, "consumed": taken}
    way = [s for s in steps.values() if not any(older_graph.is_within(s, o) for o in told.get(s.role, ()))]
    below = [
        s
        for s in older_graph.below_places(reuse.carries)
        if not any(older_graph.is_within(s, o) for o in (*once, *way))
    ]
    return (*once, *below, *way, *older_graph.calls_of(program, reuse))


def _advice(missing: set[str], reuse: Reuse) -> str:
    """Whether it is to be trained: then it is computed in every iteration; what is data loses its graph."""
    trained = reuse.own or (reuse.behind if not reuse.meant_known else set())
    if missing:
        return (
            f"{folded(missing, 3)} {'is' if len(missing) == 1 else 'are'} to learn through it and through nothing "
            "else, so it must be computed in every iteration."
        )
    if is_left_out(reuse):
        return (
            "It is a term of this loss, and would do nothing as a constant, so it must be computed in every iteration."
        )
    if trained:
        return (
            f"Where {folded(trained, 3)} should learn through it, compute it in every iteration; where it is a "
            "constant, take it without its graph."
        )
    return "No optimizer of this loss trains what it was computed from, so it is data here: take it without its graph."
