"""GD104: two losses of one iteration share a part of the graph, and each calls backward."""

from __future__ import annotations

from collections.abc import Callable

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.causes.second_backward import told
from graphdoc.evidence import Node
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Span
from graphdoc.program.bindings import decided_at
from graphdoc.program.library_calls import library_calls
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import Owners
from graphdoc.program.proof import Proof, likely
from graphdoc.program.reuse import Reuse, Role
from graphdoc.program.spans import compiled_around, in_function, innermost_user, moment, span, span_of
from graphdoc.remedies.merged_backward import can_merge
from graphdoc.source.paths import only
from graphdoc.story.message_alone import of_older_graph
from graphdoc.story.older_graph import call_name, calls_of, facts_of, names_of
from graphdoc.story.wording import all_told, folded, listing

PAGE = Page(
    code="GD104",
    title="Two losses share a part of the forward pass, and the first backward frees it",
    families=("graph-reuse",),
    what_happened="""\
Two losses are computed from the same features: two heads on one encoder, a policy and a value loss on one trunk, a
reconstruction and an adversarial loss of one generated image. Each calls `backward()`. The two graphs are separate near
the losses and one and the same further down. The first backward frees the saved tensors of the common part, and the
second arrives there and finds nothing.

The losses may also be outputs of one operation: the entries of a vector that is gone through (`for loss in losses`), or
what one custom Function returns. `DistributedDataParallel` gives out all that one forward call returns through one
node, so two losses of such a call share a graph even where their networks share nothing.""",
    why="""\
A backward frees what it has passed, and it cannot know that another loss is still going to come along the same way.
Two losses of one forward pass are no trouble as such: if the parts that they share save nothing (an addition, a slice,
the parameters themselves), both backward calls succeed.

The sum of the losses has one graph in which the common part occurs once. Since the derivative of a sum is the sum of
the derivatives, one backward of the sum leaves in every `.grad` what two calls would have added up there, at the price
of one walk through the common part instead of two.""",
    example="""\
features = encoder(x)
class_loss = F.cross_entropy(classifier(features), labels)
depth_loss = F.mse_loss(depth_head(features), depth)

optimizer.zero_grad()
class_loss.backward()
depth_loss.backward()
optimizer.step()""",
    use_instead="""\
features = encoder(x)
class_loss = F.cross_entropy(classifier(features), labels)
depth_loss = F.mse_loss(depth_head(features), depth)

optimizer.zero_grad()
(class_loss + depth_loss).backward()
optimizer.step()""",
    fix_safety="""\
Safe where nothing happens between the two calls: no `step()`, no `zero_grad()`, no reading or clipping of gradients.
The merged call then gives the same gradients, up to the rounding of sums in another order, in less time.

A step of an optimizer that holds nothing which the second loss goes through (each head with an optimizer of its own)
does not stand in the way: it moves to after the merged call. That is shown as unsafe because a step moves; the
gradients stay what they were meant to be.

Here, and in few other places, `retain_graph=True` on the first call is correct too: the second call needs the graph
intact, no weight has changed in between, and the second call frees it. It costs a second walk through the common part
and keeps its memory for longer, so merging comes first. Give the flag to the first call only; on the last one it keeps
the graph for nobody.

Under `torch.compile` two losses can share more than the program says. What is compiled together is one node of the
graph, freed as a whole, and a `detach()` inside does not part it: a compiled training step with two backward calls
fails where the same step runs uncompiled. Compile the networks, and leave the function that calls backward as it is.

With a `step()` between the two calls neither is right as it stands: see `optimizer-step-before-backward`. With two
optimizers, merging sends each loss into both networks; if one loss was not meant for the other's parameters, detach
instead: `undetached-target`.""",
    not_this="""\
- The shared part leads only to parameters that this loss should not train: `undetached-target`.
- Both calls start from the same tensor: `repeated-backward`.
- The shared part was computed before the loop: `graph-built-once`.
- The first of the two calls belongs to an earlier iteration: `carried-state`.""",
    references=("torch.Tensor.backward", links.SAVED_TENSORS),
)


@of_older_graph(PAGE.title)
def recognise(program: Program, reuse: Reuse) -> Finding | None:
    """The graph: two backward calls of one pass, and what they share is meant to learn from both.

    Certain where the graph of the earlier call was still there to be compared, and the optimizers of both calls hold a
    part of what they share; not where one of them trains that part alone and the other more, which may have meant it as
    a constant.
    """
    if not reuse.two_losses_of_one_pass:
        return None
    head = program.node(reuse.carries[0].producer) if reuse.carries else None
    return _of_compiled_step(program, reuse) if compiled_around(head, reuse.failing) else _told(program, reuse)


def _of_compiled_step(program: Program, reuse: Reuse) -> Finding:
    """The two calls stand in a function that is compiled as a whole: what they share is the compiled part itself."""
    named = names_of(reuse.carries, 2)
    compiled = library_calls(program.sources, "compile")
    title = "two losses come out of one compiled part, and the first backward frees all of it"
    text = "`torch.compile` was given a function that calls backward itself. What it compiles together is one node of "
    text += "the graph. The first backward frees all of it, also what the second loss "
    text += f"needs{f' below {named}' if named else ''}. Detaching one from the other does not help. Uncompiled, only "
    text += "what both losses lead to would be freed."
    spans = span_of("cause", only(compiled), "compiles the function together with its backward calls")
    spans = (*spans, *calls_of(program, reuse))
    because = "both calls lead through one compiled node, which the first has freed"
    return Finding(*likely(0.8), title, text, spans, facts_of(program, reuse), (_COMPILE_NETWORKS,), because=because)


def _told(program: Program, reuse: Reuse) -> Finding:
    named = names_of(reuse.carries, 2)
    exact = reuse.only_heads_stepped or reuse.both_seen
    for_both = reuse.role is Role.TRAINED and not (reuse.fitted_by_one or reuse.held_by_second)
    for_both = for_both and (reuse.read_apart or not reuse.cleared_between)
    weight = Proof.OLDER_EDGE.at(0.92 if exact else 0.8, exact and for_both)
    title = (
        f"{_WITHIN if reuse.within_one_call else 'two losses'} share the graph of {named}, and the first "
        f"{'' if reuse.within_one_call else 'backward '}frees it"
        if named
        else "two losses come from one operation, and the first backward frees its graph"
        if reuse.of_one_node and reuse.joined is None
        else PAGE.title
    )
    text = f"{_both(reuse)} share the graph of {folded(_common(reuse), 3)}. The first call frees it, so nothing is "
    text += f"left for the second. {_advice(program, reuse)}"
    return told(program, reuse, weight, title, text, _meeting(program, reuse), _because(reuse))


def _both(reuse: Reuse) -> str:
    if reuse.within_one_call:
        return "One backward call runs both, below a custom Function. They"
    if reuse.joined is not None:
        return (
            "All outputs of a forward call of `DistributedDataParallel` share one node "
            f"({reuse.joined.op}). A backward from one of them frees it for all. Both losses"
        )
    if reuse.of_one_node and reuse.failing is not None:
        return f"Both losses are outputs of one operation ({reuse.failing.root_op}) and"
    return "Both losses were computed in one forward pass and" if reuse.in_one_pass else "Both losses"


def _meeting(program: Program, reuse: Reuse) -> list[Span]:
    """The shared part, and the two calls that meet in it."""
    calls: list[Span] = []
    if reuse.freeing is not None:
        both = "both calls" if reuse.within_one_call else "both losses"
        calls += span_of("cause", reuse.freeing.stack, f"this call freed the part that {both} share")
    if reuse.failing is not None:
        name = call_name(reuse.failing)
        calls += span_of("cause", reuse.failing.stack, f"this {name} needs the shared part again")
    shared = [s for c in reuse.carries[:1] for s in _walked(program, c.made)]
    if reuse.joined is not None:
        shared = list(span_of("cause", reuse.joined.stack, JOINED, moment(reuse.joined)))
    if reuse.within_one_call and reuse.freeing is not None:
        # What both share is right; the call that is to keep it is the place.
        decided = decided_at(program.sources, reuse.freeing.stack, "retain_graph")
        if decided is not None:
            return [span("cause", decided[0], "this call frees what it goes through"), *calls]
    return [*shared[:1], *calls]


MEET = "both losses come through here"
JOINED = "`DistributedDataParallel` joins all outputs of this call in one node"


def _walked(program: Program, head: Node) -> tuple[Span, ...]:
    """What the first call has surely walked: the part that is older may begin above it, and what saves nothing tells by
    no state of its own. Nodes are told from the root down. What lies below it is told in the function that made
    its head, where that is on the stack."""
    sure = (n for n in program.nodes if n.state == "released" and any(f.user for f in n.stack))
    found = head if head.state == "released" else next(sure, head)
    made = innermost_user(head.stack)
    own = in_function(reversed(found.stack), made) if made is not None else None
    stack = found.stack[: found.stack.index(own) + 1] if own is not None else found.stack
    return span_of("cause", stack, MEET, moment(found))


def _because(reuse: Reuse) -> str:
    """What both calls reach, and whether anything was stepped in between."""
    shared = folded(_common(reuse))
    both = "both calls" if reuse.within_one_call else "both losses"
    text = f"{both} lead to {shared}" if shared else f"{both} come through the same operations"
    if reuse.of_one_node and reuse.joined is None and reuse.failing is not None:
        text = f"{text}, and are outputs of one operation ({reuse.failing.root_op})"
    if reuse.ran_beside:
        text += f"; of what ran between the two calls, {reuse.ran_beside} operations are not in the second loss"
    return f"{text}; no optimizer steps between the two calls" if reuse.calm else text


def _common(reuse: Reuse) -> set[str]:
    """The parameters that both losses reach, where the journal has measured that."""
    if reuse.failing is None or reuse.freeing is None:
        return reuse.behind
    return set(reuse.failing.reaches) & set(reuse.freeing.reaches) & reuse.behind or reuse.behind


_APART: tuple[tuple[Callable[[Reuse], bool], str], ...] = (
    (lambda reuse: reuse.inner, "An inner autograd.grad whose graph is needed again has to keep it."),
    (
        lambda reuse: reuse.read_apart,
        "The gradients are cleared in between and no optimizer steps: each loss's own gradient is wanted. Every "
        "call but the last has to keep the graph (one backward on the sum would mix the gradients).",
    ),
    (
        lambda reuse: reuse.cleared_between,
        "What the first call has given is cleared before a step could use it: where it was read, that call has to "
        "keep the graph (one backward on the sum would give another gradient); else it does nothing.",
    ),
    (
        lambda reuse: reuse.within_one_call,
        "No optimizer steps in between: every call but the last has to keep the graph.",
    ),
    (
        lambda reuse: {e.kind for e in (reuse.failing, reuse.freeing) if e is not None} != {"backward"},
        "The other loss needs a forward pass of its own; or, where nothing writes the weights in between, the call "
        "that comes first has to keep the graph.",
    ),
)
"""Where the losses are not added: the first row that holds, and what is to be done there."""


def _advice(program: Program, reuse: Reuse) -> str:
    apart = next((advice for holds, advice in _APART if holds(reuse)), "")
    if apart:
        return apart
    meant = _meant(program.owners, reuse)
    if reuse.only_heads_stepped:
        meant += ", and what has stepped in between is in neither's way"
    if reuse.stepped and not reuse.only_heads_stepped:
        return f"{meant}. Compute the shared part again for the second loss, after the step in between."
    add = "add the losses" if can_merge(program.sources, reuse) else "return the losses, add them"
    return f"{meant}: {add} and call `backward()` once."


def _meant(owners: Owners, reuse: Reuse) -> str:
    """Whom each loss trains, as far as the optimizers tell."""
    theirs, mine = reuse.works_for
    if reuse.role is not Role.TRAINED or reuse.fitted_by_one or reuse.held_by_second:
        return "Where both are to train these parameters"
    if reuse.only_heads_stepped or reuse.owners & theirs & mine or reuse.one_step:
        return "Both are meant to train these parameters"
    first, second = (listing(all_told(owners.optimizers, ids)) for ids in (theirs, mine))
    return f"The first trains its part of them with {first}, the second with {second}"


_WITHIN = "two calls in one backward"
_COMPILE_NETWORKS = Remedy(
    "compile_networks",
    "compile the networks instead of the function that calls backward",
    "display",
    "Each network is a compiled part of its own then, and backward frees what this loss leads to.",
)
