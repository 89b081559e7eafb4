"""GD609: acos, asin, acosh or atanh at the edge."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.number_limits import singular_point
from graphdoc.remedies.guarded_value import guarded
from graphdoc.story.first_bad_value import Words, called, coarse, explained, function
from graphdoc.story.wording import as_called

PAGE = Page(
    code="GD609",
    title="An inverse function is differentiated at the edge of its domain",
    families=("silent", "invalid-gradient"),
    what_happened="""\
`acos` and `asin` are defined from -1 to 1 and their derivatives are infinite at both ends; `atanh` is infinite itself
there, `acosh` ends at 1. A cosine of two equal directions is 1, and rounding makes it `1.0000001` now and then.
Clamping to the closed interval keeps the forward pass finite and lets the infinite derivative through: `0 * inf` is
nan.""",
    why="""\
The angle between equal directions has a kink: its derivative does not exist. The gradient that arrives there is
zero where the prediction is right, and zero times infinity has no value.""",
    example="angle = torch.acos(cosine.clamp(-1.0, 1.0))",
    use_instead="angle = torch.acos(cosine.clamp(-1.0 + 1e-6, 1.0 - 1e-6))  # or atan2(sine, cosine), which is exact",
    fix_safety="""\
Unsafe: inside the margin the angle is constant and no gradient flows; the smallest angle is `sqrt(2 * margin)`. In
single precision `1e-7` is the smallest margin that is one. `torch.atan2` of sine and cosine needs none.""",
    not_this="- The function is left out by a `torch.where` there: `nan-where-branch`.",
    references=("torch.acos", "torch.atan2"),
)


@explained("nan-acos-boundary")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is an inverse function outside of its domain, or the gradient behind one at its edge."""
    operand = called(trouble, birth)
    numbers = birth.saved("self") or next(iter(birth.inputs), None)
    at_edge = bool(birth.node) or birth.shows == "inf"
    ones = numbers.count("ones") if numbers is not None else 0
    counted = f"{ones} of {numbers.n} elements of {operand} are exactly 1 or -1" if ones and numbers is not None else ""
    bounds = numbers.bounds if numbers is not None else None
    if bounds is not None and (not ones or not at_edge):
        counted = f"{operand} lies between {bounds[0]:.8g} and {bounds[1]:.8g}"
    name = birth.operation
    point = singular_point(name)
    way = f"Keep {operand} inside of the domain"
    note = "Within the margin the result is constant and no gradient flows."
    return Words(
        f"{operand} {'reaches the edge' if at_edge else 'goes out'} of the domain of {as_called(name)}",
        "at the edge the derivative is infinite"
        if birth.node
        else "infinite at the edge of its domain"
        if at_edge
        else "outside of the domain",
        counted + coarse(birth.output),
        f"{function(trouble, birth)} has no finite {'derivative' if birth.node else 'value'} there.",
        guarded(trouble, birth, point.guard_in(birth.output.dtype), way, note) if point is not None else (),
    )
