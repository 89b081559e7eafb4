"""GD711: a straight-through estimator whose gradient cancels."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Confidence
from graphdoc.program import bindings
from graphdoc.program.cuts import detached_estimator
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign, likely
from graphdoc.program.spans import code_at, innermost_user, of_sign, place, short_code, span, span_of
from graphdoc.program.written_out import written_out
from graphdoc.source.module import is_method_call
from graphdoc.source.scopes import computes
from graphdoc.story.wording import folded, in_number, optimizer_of

PAGE = Page(
    code="GD711",
    title="A value is added and taken away: its gradient cancels",
    families=("silent",),
    what_happened="""\
`x + (q - x)` has the value of `q`, the rounded or quantised `x`. It is meant to have the gradient of `x`. Without a
`detach()` around the difference the two `x` cancel in the backward as well, and what is left is `q`, which has no
gradient. Everything before it receives exactly zero.

Or both sides of a difference are the same function of the parameters: in `(new - old).exp()` of a policy gradient,
`old` was computed in the same iteration and not detached. The ratio is 1 whatever the policy is.

Other terms of the loss may hide it: an entropy still trains the policy, a commitment loss the encoder.

Or a value is compared with its own copy, `(x - x.detach()).pow(2)`: the distance is zero wherever `x` goes, and the
slope of a square is zero there.

Or both parts of the estimator are detached, `(q - x).detach() + x.detach()`: its value is `q`, and it has no
gradient.""",
    why="""\
The derivative of `x + (q - x)` by `x` is 1 - 1 = 0. With `(q - x).detach()` the second part is a constant and the
derivative is 1.""",
    example="""\
q = torch.round(x)
x = x + (q - x)""",
    use_instead="""\
q = torch.round(x)
x = x + (q - x).detach()""",
    fix_safety="Unsafe, because parameters are trained that were not before. The forward values stay as they are.",
    not_this="""\
- The rounded value is used by itself: `nondifferentiable-op`.
- A loss of zero, an expert without inputs, a layer that starts at zero: gradients that are zero for now.""",
    references=("torch.Tensor.detach",),
)


def recognise(program: Program) -> Finding | None:
    """The graph: a value is added and taken away again, and what remains of the sum has no derivative. Or, measured:
    the loss depends on parameters by way of such a sum, both parts of which are detached."""
    detached = detached_estimator(program) if program.evidence.as_if is not None else None
    if detached is not None:
        return _both_detached(program, *detached)
    own = first_sign(program.signs, "from-itself")
    if own is not None and (names := _of_itself(program.sources, own)) is not None:
        return _from_itself(program, own, *names)
    sign = first_sign(program.signs, "cancelled")
    if sign is None or not str(sign.facts.get("op", "")).startswith(("Add", "Sub")):
        return None  # what cancels is no sum: a value divided by its own size, perhaps
    return (_equal if sign.facts.get("equal") else _told)(program, sign)


def _of_itself(sources: SourceTexts, sign: Sign) -> tuple[str, str] | None:
    """The two operands of a difference or a distance, one of which is the other one detached; None for others."""
    frame = innermost_user(sign.stack)
    node = bindings.expression_at(sources, frame)
    node = written_out(sources, frame, node) if node is not None else None
    if isinstance(node, ast.BinOp):
        two = [node.left, node.right]
    elif isinstance(node, ast.Call):
        of_library = computes(bindings.tree_at(sources, frame), node.func)
        two = [*([node.func.value] if is_method_call(node) and not of_library else []), *node.args][:2]
    else:
        return None
    whole = [bindings.text_of(n) for n in two]
    told = [bindings.assignments(sources, frame, t) if frame is not None else [] for t in whole]
    bare = [_undetached(made[0][1] if len(made) == 1 else n) for n, made in zip(two, told, strict=True)]
    if len(two) == 2 and (bare[0] == whole[1] or bare[1] == whole[0]):
        return whole[0], whole[1]
    return None


def _undetached(node: ast.expr) -> str:
    """What a value was detached of, as text; empty where it was not."""
    cut = False
    while isinstance(at := node.func if isinstance(node, ast.Call) and not node.args else node, ast.Attribute):
        if at.attr not in ("detach", "data", "clone"):
            break
        cut |= at.attr != "clone"
        node = at.value
    return bindings.text_of(node) if cut else ""


def _from_itself(program: Program, sign: Sign, one: str, other: str) -> Finding:
    """The distance of a value from its own copy: zero, wherever it moves."""
    whose, code = folded(sign.parameters, beside=program.names), short_code(program.sources, innermost_user(sign.stack))
    term = "term" in sign.facts
    note = "the term then says how far the value has gone from there: choose that value yourself"
    title = f"{f'`{code}`' if code else 'this term'} compares a value with itself: its gradient is zero"
    text = f"`{other if len(other) > len(one) else one}` is the same value without its graph. The distance between the "
    text += "two is zero wherever the value goes, and the slope of a square is zero there."
    spans = of_sign(
        sign,
        "a value and its own copy: zero for every input",
        f"gives {whose} nothing by {'this term' if term else 'it'}",
    )
    remedies = (Remedy("another_reference", "compare with a value from elsewhere", "display", note),)
    because = f"in {sign.count} backward calls both were equal in every element"
    # The term is zero by the way it is written; a whole loss of zero was measured.
    return Finding(
        0.94, "likely" if term else Proof.STEPS.confidence, title, text, spans, remedies=remedies, because=because
    )


def _both_detached(program: Program, cut: Cut, at: Frame, value: str) -> Finding | None:
    """The part that was to carry the gradient is detached as well."""
    sign = program.evidence.as_if
    if sign is None:
        return None
    names = cut.behind or sign.parameters
    whose = folded(names, beside=program.names)
    get, receive, were, they = in_number(len(names) != 1, "get receive were they")
    note = f"{whose} {receive} the gradient of the sum through `{value}`"
    weight = likely(0.97)  # that no gradient comes through is seen; that one should is what such a sum is written for
    title = f"an estimator detaches both its parts: {whose} {get} no gradient"
    text = f"The sum takes `{value}` away and adds it again. The added one is to carry the gradient, and it is "
    text += "detached too."
    spans = (
        span("cause", at, "is to carry the gradient, and is detached"),
        *span_of("related", sign.stack, f"sends nothing to {whose}"),
    )
    remedies = remedy_at(at, "drop_call", f"keep the graph of `{value}`", "unsafe", note)
    because = f"at {sign.count} steps {whose} {were} moved and the loss moved, and {they} got no gradient"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because, covers="GD3")


def _told(program: Program, sign: Sign) -> Finding:
    whose = folded(sign.parameters) or f"the parameters of {optimizer_of(program.optimizers, sign)}"
    inner = next((Frame(**f) for f in sign.facts["inner"]), None)
    outer = innermost_user(sign.stack)
    remedies: list[Remedy] = []
    if inner is not None and outer is not None and inner.extent != outer.extent:
        title = f"detach `{code_at(program.sources, inner)}`"
        note = f"the gradient of {whose} is then as if the value had not been rounded"
        # As it is written, no gradient comes through both.
        remedies += remedy_at(inner, "detach_expression", title, "unsafe", note, constant=True)
    spans = of_sign(sign, "the same value is added and taken away: its gradient is zero", _sends(sign, whose))
    title = f"the straight-through estimator cancels: {_receives(sign, whose)}"
    text = "The value is added once and subtracted once, so its gradient is 1 - 1. The difference has to be a constant."
    because = _seen(sign, whose)
    return Finding(0.94, _confidence(sign), title, text, tuple(spans), remedies=tuple(remedies), because=because)


def _equal(program: Program, sign: Sign) -> Finding:
    """Both sides are made of the same parameters in the same way, further up: a ratio of a policy and itself."""
    whose = folded(sign.parameters) or f"the parameters of {optimizer_of(program.optimizers, sign)}"
    outer = innermost_user(sign.stack)
    node = bindings.expression_at(program.sources, outer)
    remedies = []
    if outer is not None and isinstance(node, ast.BinOp):
        old = bindings.frame_of(program.sources, outer.file, node.right)
        note = f"the gradient of {whose} is then that of `{bindings.text_of(node.left)}`"
        title = f"detach `{bindings.text_of(node.right)}`"
        open_ = "which of the two is to be a constant, is for you to say"
        remedies.append(Remedy("detach_expression", title, "unsafe", note, {"place": place(old)}, open_))
    code = code_at(program.sources, outer)
    title = f"the two sides of `{code}` cancel: {_receives(sign, whose)}"
    text = "Both sides were computed from the same parameters and carry a graph, so each gradient comes once with plus "
    text += "and once with minus. Detach the side that is meant as a reference, such as the old log-probability."
    spans = of_sign(sign, "two values whose gradients are opposite and equal", _sends(sign, whose))
    return Finding(0.94, _confidence(sign), title, text, spans, remedies=tuple(remedies), because=_seen(sign, whose))


# The parameters may learn by other terms of the loss.


def _confidence(sign: Sign) -> Confidence:
    return "likely" if "term" in sign.facts else Proof.STEPS.confidence


def _receives(sign: Sign, whose: str) -> str:
    s = "s" * (len(sign.parameters) == 1)
    return f"{whose} learn{s} by other terms alone" if "term" in sign.facts else f"{whose} only receive zeros"


def _sends(sign: Sign, whose: str) -> str:
    return "the other terms of this loss have gradients" if "term" in sign.facts else f"sends zeros to {whose}"


def _seen(sign: Sign, whose: str) -> str:
    if "term" in sign.facts:
        return f"in {sign.count} backward calls all ways from one term of the loss to {whose} led through it"
    return f"all that reaches {whose} comes through it, and in {sign.count} steps their gradients were exactly zero"
