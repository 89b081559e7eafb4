"""GD618: a special function at its pole, a matrix without an inverse."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.remedies.guarded_value import guarded
from graphdoc.story.first_bad_value import Words, amount, called, explained, function, what_went_in

PAGE = Page(
    code="GD618",
    title="A function is taken where it has no finite value",
    families=("silent", "invalid-gradient"),
    what_happened="""\
Some functions end, or jump to infinity, at single points. `digamma`, `lgamma` and `polygamma` have a pole at zero and
at every negative whole number; the Bessel functions of the second kind end at zero; `logdet` of a matrix whose
determinant is zero is `-inf`, and its inverse, or a triangular solve with a zero on the diagonal, is infinite. A layer
norm with `eps=0` divides a row of equal numbers by their standard deviation, which is zero.""",
    why="""\
The concentration of a Dirichlet or Beta distribution, the count of a negative binomial one or the variance of a
Student one goes through `lgamma`, and reaches zero by a `relu`, by rounding, or by a row that is empty. A covariance
matrix of fewer samples than dimensions has no inverse.""",
    example="""\
concentration = torch.relu(head(h))
normaliser = torch.lgamma(concentration).sum(-1)""",
    use_instead="""\
concentration = F.softplus(head(h)) + 1e-6
normaliser = torch.lgamma(concentration).sum(-1)""",
    fix_safety="""\
Unsafe: `clamp_min` keeps what goes in above zero, and an element at the bound sends no gradient. `F.softplus` sends one
everywhere. For a matrix, a little of the identity added to it (`a + 1e-6 * torch.eye(n)`) is the usual way.""",
    not_this="""\
- A logarithm, a root, a power, a quotient: each has a cause of its own in this group.
- An inverse function at the edge of its domain, `erfinv` and `ndtri` among them: `nan-acos-boundary`.""",
    references=(("torch.special", "special.html"), "torch.linalg.slogdet"),
)


@explained("nan-singular-point")
def recognise(trouble: Trouble, birth: Birth) -> Words | None:
    """The first bad value is a special function at its pole, or of a matrix that it has no value for."""
    point = trouble.point(birth)
    if point is None:
        return None
    operand, name, numbers = called(trouble, birth), trouble.name(birth), birth.operand
    value = "derivative" if birth.node else "value"
    zeros = amount(numbers, "zeros", operand)
    bounds = numbers.bounds if numbers is not None else None
    within = f"{operand} lies between {bounds[0]:.8g} and {bounds[1]:.8g}" if bounds is not None else ""
    seen = zeros or within if len(birth.inputs) == 1 else what_went_in(birth)
    is_matrix = "matri" in point.ends
    beyond = f" and {point.beyond}" if point.beyond else ""
    way = f"Keep {operand} above zero"
    note = "Larger numbers stay as they are; at the bound no gradient flows."
    return Words(
        f"`{name}` is given {point.ends}: no finite {value} there",
        f"no finite {value} at {point.ends}{beyond}" if not is_matrix else f"no finite {value} for {point.ends}",
        what_went_in(birth) if not point.guard else seen,
        f"{function(trouble, birth)} has no finite {value} there.",
        guarded(trouble, birth, point.guard_in(numbers.dtype if numbers is not None else ""), way, note)
        if point.guard
        else (),
    )
