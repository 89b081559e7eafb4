"""GD702: what should be a constant for the loss, a target network's value, is trained by it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import takewhile

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import ITSELF, Frame, Sign, SourceTexts
from graphdoc.finding import COPY, Finding, Remedy, edit_at, remedy_at, together
from graphdoc.program import bindings, spans
from graphdoc.program.observed import Program
from graphdoc.program.proof import likely
from graphdoc.program.tracker import as_given, behind
from graphdoc.program.written_out import call_made
from graphdoc.source.module import is_method_call, values_of
from graphdoc.source.paths import last_word
from graphdoc.story.gradients import compared_with_itself, dropped_detach, factor_at, kept_reference, trained_baseline
from graphdoc.story.wording import first_told, folded

PAGE = Page(
    code="GD702",
    title="A loss trains the target network that it is measured against",
    families=("silent",),
    what_happened="""\
A second network stands beside the one that learns and is copied from it now and then: the target network of Q-learning,
for example. Its value is the goal of the loss. Without `detach()` or `torch.no_grad()` the goal has a graph as well. If
the optimizer holds both networks, it also moves the goal towards the prediction. If both names are one network, the
copy does nothing, and there is no target network at all.

A divergence of a policy from itself, whose curvature a trust region needs, has such a side as well: the policy as it
was. If both sides have a graph, they move together, the divergence stays zero, and so is its second derivative.

A copy of the parameters themselves is such a goal too: where a penalty keeps a network near what it was after an
earlier task, `p.clone()` keeps the graph that leads back to `p`. The derivative of `p - old` by `p` is then 1 - 1 = 0,
and the penalty moves nothing, however large it grows. A list of the parameters, `old = list(net.parameters())`, holds
no copies at all: each step changes its entries as well, and the distance from them stays zero.

So is the advantage of a policy: what a log-probability is multiplied with says how much to learn from an action. If it
is computed from a value with a graph, `returns - values`, the policy's part of the loss moves the value as well. If it
is computed from the policy, `q - (policy.probs * q_all).sum(1)`, the policy learns to change the advantage itself.

So is a goal that the network predicts by itself: the overlap of a predicted box with the true one as what its score is
to reach (`F.binary_cross_entropy_with_logits(score, overlap)`), or a prediction that counts as a label where it is sure
enough. With its graph, it moves towards the other side as well. Where the goal is another head's probability, as in a
divergence between two of them, both sides may be meant to learn, and nothing is told.

Or `detach()` is called, and its result is dropped. `goal.detach()` alone, on a line of its own, changes nothing: it
returns a new tensor. Write `goal = goal.detach()`.""",
    why="""\
Autograd differentiates a loss by everything that it was computed from. It knows no goals. `module.to(device)` returns
the module itself, and so does an assignment: a second network needs `copy.deepcopy`.""",
    example="""\
optimizer = torch.optim.Adam([*net.parameters(), *target_net.parameters()])
goal = reward + gamma * target_net(next_state).max(dim=1).values
loss = F.mse_loss(net(state).gather(1, action).squeeze(1), goal)""",
    use_instead="""\
optimizer = torch.optim.Adam(net.parameters())
with torch.no_grad():
    goal = reward + gamma * target_net(next_state).max(dim=1).values
loss = F.mse_loss(net(state).gather(1, action).squeeze(1), goal)""",
    fix_safety="""\
Unsafe, because it decides what is a constant for the loss. Detach the goal, or compute it under `torch.no_grad()`.
Where both names are one network, `copy.deepcopy` makes the second one. A copy of parameters that is detached keeps its
values, and the gradient of the penalty reaches the parameters themselves.""",
    not_this="""\
- The goal's graph was freed by its own backward, and PyTorch raised an error: `undetached-target`.
- The second network is meant to learn by the same loss, and nobody copies into it.""",
    references=("torch.Tensor.detach", "torch.no_grad", links.LOAD_STATE_DICT),
)


def recognise(program: Program) -> Finding | None:
    """A loss trains its own goal, or what weighs its terms; or it compares a value with itself."""
    return first_told(
        program,
        (ITSELF, _itself),
        ("own-copy", kept_reference),
        ("own-self", compared_with_itself),
        ("detach-dropped", dropped_detach),
        ("baseline-trained", trained_baseline),
        ("same-network", _same),
        ("became-network", _became),
        ("target-trained", _trained),
        ("goal-trained", _predicted),
    )


def _trained(program: Program, sign: Sign) -> Finding | None:
    frame = spans.innermost(sign.stack)
    if frame is None:
        return None
    whose = folded(sign.parameters)
    note = f"The loss sends no gradient into {whose or 'the target network'} any more."
    code = spans.code_at(program.sources, frame)
    copied = bool(sign.other)
    how = "is copied from" if copied else "follows"
    only = "be a copy of" if copied else "follow"
    label = f"brings the {'copied ' if copied else ''}network's graph into the loss"
    return Finding(
        *likely(0.93),  # whom the loss trains is seen; what was meant as a goal is not
        f"the loss trains {whose or 'a network'}, which should only {only} the trained one",
        f"The goal of this loss carries the graph of the network that {how} the trained one.",
        spans.of_sign(sign, label, "copied from the trained network here"),
        remedies=remedy_at(frame, "detach_expression", f"detach `{code}`", "unsafe", note),
        because=f"it {how} the other network while the training goes on, the same loss reaches both, and an optimizer "
        "steps both",
    )


def _predicted(program: Program, sign: Sign) -> Finding | None:
    """A goal that the network predicts by itself, with its graph."""
    frame, loss = spans.innermost_user(sign.stack), spans.innermost_user(sign.other)
    if frame is None or loss is None:
        return None
    given = bindings.argument(bindings.call_at(program.sources, loss), 1, "target")
    factor = factor_at(program.sources, loss, sign.facts["operand"]) if sign.facts["chosen"] else None
    used = bindings.frame_of(program.sources, loss.file, given, loss.function) if given is not None else factor
    code, whose = spans.code_at(program.sources, used or frame), folded(sign.parameters) or "the network"
    places = [f for f in ((frame, used) if sign.facts["apart"] else (used,)) if f is not None]
    note = f"the goal is a constant for this loss, and its other side alone trains {whose}"
    edits = [edit_at("detach_expression", f, constant=True) for f in places[:1]]
    chosen = "Only its surest rows count, so it stands for a label."
    return Finding(
        *likely(0.9),  # whom the loss trains is seen; what was meant as a constant is not
        "the goal of a loss is predicted by the same network, and not detached",
        f"The loss also moves `{code}` towards what it is compared with. {chosen if sign.facts['chosen'] else ''}",
        (
            spans.span("cause", frame, "predicts the goal, with a graph"),
            *spans.span_of("cause", sign.other, "trains both of its sides"),
            *(spans.span("consumed", Frame(**f), "adds up both gradients") for f in sign.facts["backward"]),
        ),
        remedies=tuple(together(edits, f"detach `{code}`", "unsafe", note)) if edits else (),
        because=f"in {sign.count} of {sign.count} losses both the prediction and its goal lead to {whose}, and "
        + (
            "nothing else is computed from the goal"
            if sign.facts["chosen"]
            else "the goal rates another term of the loss"
        ),
    )


def _itself(program: Program, sign: Sign) -> Finding | None:
    one = [f for f in sign.stack if f.user]
    two = [Frame(**f) for f in sign.facts["second"] if f["user"]]
    level = spans.shared_levels(one, two)
    if not level < min(len(one), len(two)):
        return None
    first, other = one[level], two[level]
    code = spans.code_at(program.sources, first)
    remedies = []
    if first.line != other.line:
        note = "The other side alone is differentiated, so the product with the Hessian is no longer zero."
        title = f"compute `{code}` at {spans.where(first)} under torch.no_grad()"
        remedies.append(Remedy("no_grad_block", title, "unsafe", note, {"place": spans.place(first)}))
    what = f"the same computation: `{spans.code_at(program.sources, other)}`"
    return Finding(
        *likely(0.95),  # that no second derivative is left is measured; which side is meant as a constant is not
        f"`{code}` is compared with itself, not detached: the second derivative is zero",
        "Both sides of the comparison are the same function of the same parameters, so it is zero whatever they are.",
        (
            spans.span("cause", first, "computed with a graph, and so is the same computation beside it"),
            spans.span("related", other, what),
            *spans.span_of("consumed", sign.other, "this gradient is differentiated again, and gives zero"),
        ),
        remedies=tuple(remedies),
        because=f"{sign.count} second derivatives were zero, and both sides are the same numbers, computed by the same "
        "operations",
    )


def _same(program: Program, sign: Sign) -> Finding | None:
    frame, call = call_made(program.sources, sign.stack) or (None, None)
    given = bindings.argument(call, 0, "state_dict") if isinstance(call, ast.Call) else None
    if frame is None or given is None or not is_method_call(call):
        return None
    made = sign.stack[: sign.stack.index(frame) + 1]
    target, stack = as_given(program.sources, made, call.func.value)
    name, frame = bindings.text_of(target), stack[-1]
    source = _owner_of_state(program.sources, made, given)
    if "rests" in sign.facts:
        return _never_copied(program, frame, given, sign.facts["rests"], name, source)
    if not source or source == name:
        return None  # one name for one network: its own state is loaded again
    if not (_computes(program.sources, name) and _computes(program.sources, source)):
        return None  # a second name, by which nothing is computed, gives no goal
    bound = _bindings(program.sources, frame.file, name)
    label = f"`{name}` and `{source}` are one network"
    remedies = [
        Remedy(
            "rewrite",
            f"make `{name}` a network of its own with copy.deepcopy",
            "unsafe",
            f"`{source}` alone is trained then, and the copy at {frame.file}:{frame.line} has an effect",
            {"place": spans.place(f), "pairs": COPY},
        )
        for f in bound[:1]
    ]
    return Finding(
        *likely(0.95),  # whom the loss trains is seen; what was meant as a goal is not
        f"`{name}` and `{source}` are one network: the loss trains its own target",
        "Loading the network's own state changes nothing. The goal should be a constant, and has the graph of the "
        "trained network.",
        (
            *(spans.span("cause", f, label) for f in bound[:1]),
            spans.span("related" if bound else "cause", frame, "copies the network into itself"),
        ),
        remedies=tuple(remedies),
        because="the parameters that were loaded are the network's own",
    )


def _became(program: Program, sign: Sign) -> Finding | None:
    """The assignment by which one name is given to the network of another one, while the training goes on."""
    name, source = _owner(sign.facts["was"]), _owner(sign.parameters)
    found = [
        bindings.frame_of(program.sources, file, n.value)
        for file, n in bindings.everywhere(program.sources, ast.Assign)
        if last_word(n.value) == source
        and any(last_word(t) == name for t in n.targets)
        and isinstance(n.value, ast.Name | ast.Attribute)
    ]
    if len(found) != 1 or not name or name == source:
        return None
    note = f"`{name}` keeps the weights of that moment, and `{source}` alone is trained"
    title = f"give `{name}` a copy of its own with copy.deepcopy"
    return Finding(
        *likely(0.95),  # whom the loss trains is seen; what was meant as a goal is not
        f"`{name}` becomes `{source}` itself, no copy: the loss trains its own target",
        "An assignment gives one object a second name. The goal should be a constant, and has the graph of the "
        "trained network.",
        (
            spans.span("cause", found[0], f"from here on `{name}` and `{source}` are one network"),
            *spans.span_of("related", sign.stack, "trains it by both of its values"),
        ),
        remedies=remedy_at(found[0], "rewrite", title, "unsafe", note, pairs=COPY),
        because=f"this loss reached `{name}`'s own parameters at first, and reaches those of `{source}` twice since",
    )


def _owner(parameters: list[str]) -> str:
    """The last word of what holds all of these parameters."""
    holders = [name.split(".")[:-1] for name in parameters]
    common = [words[0] for words in takewhile(lambda words: len({*words}) == 1, zip(*holders, strict=False))]
    return common[-1] if common else ""


def _never_copied(
    program: Program, frame: Frame, given: ast.expr, rests: bool, name: str, source: str
) -> Finding | None:
    """A network that is copied into itself again and again, where its value is held constant for every loss."""
    if not source or not (_computes(program.sources, name) and _computes(program.sources, source)):
        return None
    if source == name:
        if not rests:
            return None  # what is trained may go back to its own state
        title = f"`{name}` is copied from itself and follows no other network"
        said = "No optimizer steps it and no loss reaches it, so it keeps the values that it had before."
        return Finding(
            *likely(0.9),  # that the copy changes nothing is seen; which network was meant is not
            title,
            said,
            (spans.span("cause", frame, f"loads into `{name}` what it holds"),),
            remedies=_loads_another(program.sources, frame.file, given, name),
            because="the parameters that were loaded are the network's own",
        )
    bound = [f for f in _bindings(program.sources, frame.file, name) if spans.code_at(program.sources, f) == source]
    if rests or not bound:
        return None
    note = f"`{name}` keeps its values from one copy to the next, as it did until the first one"
    remedies = (
        Remedy("delete_statement", "remove the assignment", "unsafe", note, {"place": spans.place(bound[0])}),
        Remedy("rewrite", "assign a copy", "unsafe", note, {"place": spans.place(bound[0]), "pairs": COPY}),
    )
    return Finding(
        *likely(0.95),  # that both are one network is seen; that they were meant to stay two is not
        f"`{name}` becomes the network `{source}`: it is no target any more",
        "A value that is computed with it as the goal of a loss moves with every step.",
        (
            *spans.span_of("cause", [bound[0]], f"`{name}` is `{source}` from here on"),
            spans.span("related", frame, "copied between two networks at first, into itself since"),
        ),
        remedies=remedies,
        because="the parameters that were loaded are the network's own, and were another one's at first",
    )


def _loads_another(sources: SourceTexts, file: str, given: ast.expr, name: str) -> tuple[Remedy, ...]:
    """Load the state of the one network of which this file loads it elsewhere."""
    loads = [
        (bindings.text_of(n.func.value), _owner_of_state(sources, [], n.args[0]))
        for n in bindings.every_node(sources, file)
        if is_method_call(n, "load_state_dict") and n.args
    ]
    others = {source for target, source in loads if target == name and source not in ("", name)}
    if len(others) != 1:
        return ()
    other = others.pop()
    at = bindings.frame_of(sources, file, given)
    title = f"load the state of `{other}`"
    note = f"`{name}` becomes a copy of `{other}` again, as this file makes it elsewhere"
    return remedy_at(at, "use_instead", title, "unsafe", note, inside=True, operand=name, name=other)


def _owner_of_state(sources: SourceTexts, stack: Sequence[Frame], node: ast.expr) -> str:
    """``net`` of ``net.state_dict()``, behind names and arguments; empty for anything else."""
    for at, value in [(stack, node), *((b.stack, b.value) for b in behind(sources, stack, node))]:
        if is_method_call(value, "state_dict"):
            return bindings.text_of(as_given(sources, at, value.func.value)[0])
    return ""


_BOOKKEEPING = {"state_dict", "load_state_dict", "parameters", "named_parameters", "eval", "train", "to", "modules"}


def _computes(sources: SourceTexts, name: str) -> bool:
    """Whether something is computed with what has this name: it is called, or a method that does more than keep it."""
    last = name.rpartition(".")[2]
    for _, node in bindings.everywhere(sources):
        called = bindings.text_of(node.func) if isinstance(node, ast.Call) else ""
        owner, _, method = called.rpartition(".")
        if method == last or (owner.rpartition(".")[2] == last and method not in _BOOKKEEPING):
            return True
    return False


def _bindings(sources: SourceTexts, file: str, name: str) -> list[Frame]:
    """The expressions that ``name`` is bound to in this file."""
    return [bindings.frame_of(sources, file, v) for v in values_of(bindings.tree(sources, file), name)]
