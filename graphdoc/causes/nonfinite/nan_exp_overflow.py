"""GD606: an exponential that overflows."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy
from graphdoc.program.bad_values import HALF, Birth, Trouble
from graphdoc.program.bindings import scope_at
from graphdoc.program.carried_names import bound_names
from graphdoc.program.spans import innermost_user
from graphdoc.remedies.guarded_value import for_every_use, guarded, without_exponential
from graphdoc.source.module import each
from graphdoc.source.paths import plain_names
from graphdoc.story.first_bad_value import Words, called, explained, function
from graphdoc.story.wording import as_called

PAGE = Page(
    code="GD606",
    title="An exponential leaves the range of its number type",
    families=("silent", "invalid-gradient"),
    what_happened="""\
`exp` of more than 88.7 is infinite in single precision (11.1 in half, 709.8 in double). The infinity is then divided,
subtracted or taken the logarithm of, and the gradient is nan. Typical: a softmax or a likelihood written out by hand,
the ratio `exp(new - old)` of a policy far from the old one, a scale that is learned as its logarithm.""",
    why="""\
The result of the whole formula would be finite, `log(sum(exp(x)))` is about the largest `x`; but the value in between
has no place among the floating-point numbers.""",
    example="""\
likelihood = (weight * log_density.exp()).sum(1)
loss = -torch.log(likelihood).mean()""",
    use_instead="loss = -torch.logsumexp(torch.log(weight) + log_density, dim=1).mean()",
    fix_safety="""\
Safe in its meaning is the form that stays in the range: `torch.logsumexp`, `F.log_softmax`, `F.softplus`,
`torch.expm1`. Unsafe is a bound on the exponent: no gradient flows beyond it, and the program may learn nothing
there.""",
    not_this="""\
- Everything grows from step to step, and `exp` is only where it shows: `exploding-gradients`.
- The type is half precision, and single precision has room for the number: `nan-half-overflow`.""",
    references=("torch.logsumexp", "torch.exp"),
)


_GROWS = ("exp", "exp2", "expm1", "softplus")
"""Overflow for large inputs alone, `cosh` and its like for very small ones too."""


@explained("nan-exp-overflow")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is the result of an exponential."""
    operand = called(trouble, birth, "the exponent")
    numbers = next(iter(birth.inputs), None)
    bounds = numbers.bounds if numbers is not None else None
    largest = f"the largest element of {operand} is {bounds[1]:.4g}" if bounds is not None else ""
    if bounds is not None and -bounds[0] > bounds[1] and birth.operation not in _GROWS:
        largest = f"the smallest element of {operand} is {bounds[0]:.4g}"
    logarithm = innermost_user(trouble.call)
    title = f"{operand} grows too large for {as_called(birth.operation)}, which overflows"
    label = "the exponential is larger than the type can hold"
    remedies = (
        *without_exponential(birth.place if logarithm is not None else None),
        *_bounded(trouble, birth, operand),
    )
    return Words(title, label, largest, f"{function(trouble, birth)} is infinite.", remedies)


def _bounded(trouble: Trouble, birth: Birth, operand: str) -> tuple[Remedy, ...]:
    """A bound on the exponent, far below the end of the range: products and squares of the result stay finite too."""
    if birth.operation != "exp" or _is_share(trouble, birth):
        return ()
    most = "5.0" if birth.output.dtype in HALF else "20.0"
    note = f"{operand} gets no gradient where it is larger than {most}."
    everywhere = for_every_use(trouble, birth, float(most), True, f"bound {operand} for all that is computed from it")
    return everywhere or guarded(trouble, birth, f"clamp_max({most})", f"bound {operand}", note)


def _is_share(trouble: Trouble, birth: Birth) -> bool:
    """Whether the exponentials are divided by their sum: a softmax, which a bound would make equal shares of."""
    names = set(bound_names(trouble.sources, birth.place)) if birth.place is not None else set()
    divisions = [n for n in each(scope_at(trouble.sources, birth.place), ast.BinOp) if isinstance(n.op, ast.Div)]
    return any(names & plain_names(n.left) and names & plain_names(n.right) for n in divisions)
