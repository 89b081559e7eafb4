"""GD304: the loss passes through an operation that has no derivative: argmax, a sample, a comparison, a cast."""

from __future__ import annotations

from dataclasses import dataclass

from graphdoc.causes.base import Page
from graphdoc.evidence import ALL_ZEROS, Cut, Frame, Node
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.messages.recognise import Match
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign
from graphdoc.program.spans import innermost, innermost_user, place, span_of
from graphdoc.remedies.fix_places import applies, left_open, to_finish
from graphdoc.remedies.gradients import draw_remedies, is_scored
from graphdoc.story.gradients import zero_derivative
from graphdoc.story.missing_graph import facts_of, find_cut, same_line, story, unseen, weigh
from graphdoc.story.wording import as_called

PAGE = Page(
    code="GD304",
    title="The loss is built from an operation that has no derivative",
    families=("no-graph", "not-differentiable", "legacy", "silent"),
    what_happened="""\
The way from the network to the loss leads through an operation whose result does not change smoothly with its input:
an index (`argmax`, `argsort`, `topk(...).indices`, `nonzero`), a decision (`>`, `==`), a cast to integers (`.long()`,
`.int()`, `.bool()`), a count (`histc`, `bincount`), or a random draw (`multinomial`, `Categorical.sample()`). A small
change of a parameter changes nothing in the result, or makes it jump. There is no slope to follow.

The loss is often exactly the number one would like to improve: the accuracy, the error of a decoded position, the
reward of a sampled action. As a number to report it is fine; as a loss it needs a differentiable stand-in. Or the
stand-in is there, as `z + (e - z).detach()`, and the next layer is given the indices, or `e`.""",
    why="""\
The results of these operations are integers or booleans, which cannot require gradients, or draws made under
`no_grad` (`Distribution.sample()`). They have no `grad_fn`. A `.float()` after them changes the type and not the
history, so `backward()` raises *element 0 of tensors does not require grad and does not have a grad_fn*.

Some neighbours raise nothing and are worse. `round`, `floor`, `ceil`, `sign` and `torch.bernoulli(p)` of a float tensor
stay in the graph with a derivative of zero: `backward()` runs and every gradient before them is zero, but for what
comes past them through a scale, as in `round(w / s) * s` with `s = w.abs().amax()`. A softmax over a dimension of size
one is 1 for every input, so it passes nothing on either; nor does a value that is divided by its own sum or length
there, or a layer that normalises groups of one element. The sum of a softmax, or of the squares of a normalised vector,
is 1 as well: the gradients cancel, and the rounding that is left is what Adam makes full steps of. A ReLU or a margin
that all values lie below from the first step on passes nothing on for ever; nor do two factors that both begin at zero,
as in `x @ A @ B`. Others are differentiable where it counts: the *values* of `max`, `sort`, `topk`, `median` and
`gather` pass gradients on; only their indices do not.

An operator of `torch.library` that has a kernel and no derivative raises nothing either, where `Library.impl` or C++
registered it: PyTorch warns once, in backward, and what comes before it gets no gradient.""",
    example="""\
action = policy(obs).softmax(-1).multinomial(1)
loss = -(action.float() * advantage).mean()  # the number of the action, not its probability
loss.backward()""",
    use_instead="""\
dist = torch.distributions.Categorical(logits=policy(obs))
action = dist.sample()
loss = -(dist.log_prob(action) * advantage).mean()  # the surrogate of the policy gradient
loss.backward()""",
    fix_safety="""\
Unsafe or display: every stand-in is another objective, and choosing it is a decision about the model. For a
`Distribution.sample()` in the function of the loss there is a patch: `rsample()` where the distribution has it, and the
log-probability as a weight. Both are tried, and what then receives gradients is told. A rounding may be sent past,
straight through. Where a probability is compared with a threshold, or `argmax` decides between two, the patch takes the
probability itself. Another comparison that is used as a number may keep its value and send the gradient of a sigmoid
past it, or go over smoothly: how smoothly is a placeholder in its patch.

| written | differentiable stand-in |
|---|---|
| a sampled action or token | `log_prob(action) * advantage` (score function), the advantage detached |
| a sample of a Gaussian or other continuous distribution | `rsample()` (reparametrisation) |
| a sample of a categorical one, used further in the network | `F.gumbel_softmax(logits, tau, hard=True)` |
| accuracy, `argmax(...) == y` | `F.cross_entropy(logits, y)` |
| a decoded position, `argmax` over bins | cross-entropy over the bins, or their expectation `(p * positions).sum()` |
| a threshold, `p > 0.5` | `F.binary_cross_entropy_with_logits`, or `torch.sigmoid((p - 0.5) / tau)` |
| rounding, quantising | straight-through: `x + (x.round() - x).detach()` |
| a count or histogram | a sum of soft memberships |

`loss.requires_grad = True` only makes the message go away: no parameter receives a gradient.""",
    not_this="""\
- The indices are used to *select* (`logits.gather(1, index)`, `x[mask]`): that is differentiable with respect to what
  is selected and no error.
- The operation has a derivative and was run under `no_grad`: `cut-by-no-grad`.
- *derivative for aten::..._backward is not implemented*: the first derivative exists, the second does not:
  `no-double-backward`.""",
    references=(
        ("torch.distributions: score function and pathwise derivative", "distributions.html"),
        (
            "Gradients for non-differentiable functions",
            "notes/autograd.html#gradients-for-non-differentiable-functions",
        ),
        "torch.nn.functional.gumbel_softmax",
    ),
)


@dataclass(frozen=True)
class _Standin:
    """What to say about a group of operations: the words for it and the differentiable stand-in."""

    ops: tuple[str, ...]
    what: str
    instead: str


_STANDINS = (
    _Standin(
        ("multinomial", "sample", "bernoulli", "randint"),
        "a random draw",
        "For a sampled action the surrogate is the policy gradient: `-(dist.log_prob(action) * advantage.detach())`. "
        "For a continuous distribution `rsample()` keeps the graph; for a categorical one used further on, "
        "`F.gumbel_softmax(logits, hard=True)` does.",
    ),
    _Standin(
        ("argmax", "argmin"),
        "the position of the largest value",
        "Use `F.cross_entropy(scores, target)` for a class, `dist.log_prob(action) * advantage` for an action, and "
        "`scores.softmax(-1)` as weights for a choice between parts. For a position, "
        "`(scores.softmax(-1) * positions).sum(-1)` is its expectation.",
    ),
    _Standin(
        ("argsort", "sort", "topk", "searchsorted", "bucketize", "nonzero", "argwhere", "unique", "max", "min"),
        "a set of indices",
        "The values that stand at these indices are differentiable; take the loss on them, or on a soft ranking.",
    ),
    _Standin(
        ("gt", "lt", "ge", "le", "eq", "ne", "isclose", "logical_and", "logical_or", "logical_not", "greater", "less"),
        "a yes or no",
        "Take the loss on the scores before the comparison: `F.binary_cross_entropy_with_logits` or "
        "`F.cross_entropy`; or "
        "soften it with `torch.sigmoid((x - threshold) / temperature)`.",
    ),
    _Standin(
        ("long", "int", "short", "bool", "to", "type", "byte", "_to_copy", "one_hot"),
        "whole numbers",
        "Keep the floats for the loss. Where whole numbers are needed in the forward, the straight-through form "
        "`x + (x.round() - x).detach()` has their value and the gradient of `x`.",
    ),
    _Standin(
        ("histc", "bincount", "count_nonzero", "histogram"),
        "a count",
        "A sum of soft memberships (`torch.sigmoid` or a kernel around each bin) is the differentiable form of a "
        "count.",
    ),
)
_GENERAL = _Standin(
    (), "a value without a slope", "Compute the loss from its input, or use a smooth function in its place."
)


_UNDERIVED = (
    "derivative-not-implemented",
    "derivative-for-aten-op",
    "argument-not-differentiable",
    "first-derivative-not-implemented",
)


_UNSEEN = "the loss is made of indices, comparisons, integers or samples, which have no derivative."


def recognise(program: Program) -> Finding | None:
    """The first operation on the loss's way that has no derivative; or PyTorch's own word that it has none."""
    flat = first_sign(program.signs, "zero-derivative", "scale-alone")
    if flat is not None and ("rest" not in flat.facts or first_sign(program.signs, ALL_ZEROS) is not None):
        return zero_derivative(program, flat)
    cut = find_cut(program, "nondifferentiable")
    if cut is not None:
        sign = program.evidence.as_if  # of a term alone, the graph has told whether the draw is scored
        meant = sign is not None and "part" not in sign.facts and is_scored(program.sources, cut)
        return _from_cut(program, cut) if not meant else None
    named = program.message(*_UNDERIVED)
    return _named(program, named) if named is not None else unseen(program, 0.24, PAGE.title, _UNSEEN)


def _named(program: Program, named: Match) -> Finding | None:
    op = (named.fields.get("op") or named.fields.get("name", "")).removeprefix("aten::")
    if op.endswith("backward"):
        return None
    op, _, argument = op.partition(": ")
    frame = _called(program.evidence.failing_node, op) or program.raised_at
    marks = span_of("cause", frame, f"{op} has no derivative")
    by = f" with respect to `{argument}`" if argument else ""
    text = f"PyTorch knows no derivative of `{op}`{by}, and a tensor that requires gradients was given to it. "
    return Finding(
        *program.weight(0.9, Proof.RAISED.confidence),
        f"PyTorch has no derivative of `{op}`{by}",
        text + _standin(op).instead,
        (*marks, *program.raised_span(""))[:1],
    )


def _called(failed: Node | None, op: str) -> Frame | None:
    """Where the operation of this name was called, if the backward failed at its node: it raises at the backward."""
    if failed is None or not failed.op.lower().startswith(op.lower().strip("_")):
        return None
    return innermost_user(failed.stack)


def _from_cut(program: Program, cut: Cut) -> Finding:
    known, frame = _standin(cut.op), innermost(cut.stack)
    remedies = draw_remedies(program, cut) or _by_probability(program, cut)
    if frame is not None and not remedies:
        remedies = (
            *(r for r in (*_past(frame), *_softened(frame)) if applies(program.sources, r)),
            Remedy("surrogate", "Use a differentiable stand-in", "display", known.instead, {"place": place(frame)}),
        )
    return Finding(
        *weigh(program, cut),
        f"the loss goes through {as_called(cut.op)}, which has no derivative",
        f"{as_called(cut.op)} at {same_line(cut)} gives {known.what}: no gradient passes through it. {known.instead}",
        story(program, cut, f"{as_called(cut.op)} has no derivative: the graph ends here"),
        facts_of(program.cuts, cut),
        remedies,
    )


def _past(frame: Frame) -> tuple[Remedy, ...]:
    title = "keep the yes or no, and send the gradient of a sigmoid past it"
    note = "The value stays. The gradient is that of a sigmoid, which goes over within a distance of about one."
    remedies = remedy_at(frame, "straight_through", title, "unsafe", note)
    return tuple(left_open(r, "another function may be the one to take the gradient of") for r in remedies)


def _softened(frame: Frame) -> tuple[Remedy, ...]:
    return to_finish(
        frame,
        "soften_comparison",
        "let the yes or no go over smoothly",
        "It is another loss: each answer counts by how clear it is.",
        {"WIDTH": "the distance over which a no becomes a yes, a number above 0"},
        width="WIDTH",
    )


_PROBABILITIES = ("SigmoidBackward0", "SoftmaxBackward0")


def _by_probability(program: Program, cut: Cut) -> tuple[Remedy, ...]:
    """The probability in the place of the decision, where one was compared with a threshold, or of two scores."""
    frame = innermost(cut.stack)
    known = cut.before_op in _PROBABILITIES
    if frame is None or not cut.certain or not (known or cut.choices == 2):
        return ()
    given = {"given": "probabilities" if known else "scores"} if cut.choices == 2 else {}
    title, note = "use the probability instead of the decision", "The loss is a soft one then: its gradient passes."
    decided = "whether the term is to have the decision's value, is for you to say" if program.evidence.as_if else ""
    remedy = Remedy("probability_for_decision", title, "unsafe", note, {"place": place(frame), **given}, decided)
    return (remedy,) if applies(program.sources, remedy) else ()


def _standin(op: str) -> _Standin:
    """The stand-in for an operation by its last name: ``torch.argmax``, ``aten::gt`` and ``Tensor.__gt__`` alike."""
    name = op.replace("::", ".").removesuffix("()").split("(")[0]
    parts = [p.strip("_").lower() for p in name.split(".")]
    return next((s for s in _STANDINS for p in reversed(parts) if p in s.ops), _GENERAL)
