"""GD608: a power at or below zero."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.number_limits import above_zero
from graphdoc.remedies.guarded_value import guarded
from graphdoc.story.first_bad_value import Words, amount, called, explained, function

PAGE = Page(
    code="GD608",
    title="A power has no value, or no derivative, at its base",
    families=("silent", "invalid-gradient"),
    what_happened="""\
`x ** a` is nan for a negative `x` and an exponent that is no whole number. At zero it is infinite for a negative
exponent, and for one between 0 and 1 its derivative `a * x ** (a - 1)` is: the forward pass is fine and the gradient
is not.""",
    why="""\
PyTorch computes powers with real numbers. A base that is meant to be positive reaches zero by rounding, by a `relu`,
or by a pixel that is black.""",
    example="loss = (error.abs() ** 0.7).mean()",
    use_instead="loss = (error.abs().clamp_min(1e-6) ** 0.7).mean()",
    fix_safety="""\
Unsafe: a bound on the base sends no gradient below it. Which bound is small enough depends on the exponent: the
derivative at the bound is `a * bound ** (a - 1)`.""",
    not_this="""\
- The power is a square root written as one: the same fault, told as `nan-sqrt-at-zero` for `sqrt`.
- The base is large and the power overflows: `exploding-gradients`.""",
    references=("torch.pow",),
)


_ROOT = 0.5
"""From this exponent on a power is bounded as low as a root; the derivative of a lower one is larger there."""


@explained("nan-pow")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is a power, or the gradient behind one, whose base is zero or negative."""
    operand = called(trouble, birth, "the base")
    numbers = birth.saved("self") or next(iter(birth.inputs), None)
    negative = numbers is not None and birth.shows == "nan" and bool(numbers.count("negative"))
    exponent = (birth.facts.get("saved") or {}).get("exponent")
    told = f"the exponent is {exponent:g}" if isinstance(exponent, int | float) else ""
    counted = amount(numbers, "negative" if negative else "zeros", operand)
    return Words(
        f"{operand} {'is negative' if negative else 'is zero'}, where the power "
        f"{'has no derivative' if birth.node else 'is infinite' if birth.shows == 'inf' else 'has no value'}",
        f"no {'finite ' if birth.shows == 'inf' else ''}value for this base"
        if not birth.node
        else "its derivative with respect to the exponent takes the logarithm of the base"
        if negative
        else "at zero the derivative is infinite",
        "; ".join(t for t in (counted, told) if t),
        f"{function(trouble, birth)} has no finite {'derivative' if birth.node else 'value'} there.",
        guarded(
            trouble,
            birth,
            above_zero("sqrt" if isinstance(exponent, int | float) and exponent >= _ROOT else "pow", numbers),
            f"Keep {operand} above zero",
            "Powers of larger numbers stay as they are; at the bound no gradient flows.",
        ),
    )
