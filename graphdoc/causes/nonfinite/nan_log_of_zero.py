"""GD601: a logarithm of zero or of a negative number."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.number_limits import Singular, above_zero, singular_point
from graphdoc.remedies.fix_places import applies
from graphdoc.remedies.guarded_value import guarded, kept_above_zero, without_exponential
from graphdoc.story.first_bad_value import Words, amount, called, coarse, explained, function

PAGE = Page(
    code="GD601",
    title="A logarithm is taken of zero or of something negative",
    families=("silent", "invalid-gradient"),
    what_happened="""\
The logarithm of zero is `-inf`, that of a negative number is nan. Both go on through the sum and the mean into the
loss; `0 * -inf` is nan as well, so a term that is weighted with zero does not stay out of it. Where only the gradient
is hit, the derivative `1 / x` is what has no value at zero.

The zeros are rarely written by anybody. A sigmoid of more than 17 is exactly 1 in single precision, so `1 - p` is
exactly 0; a softmax underflows to 0 for a class that is sure not to be meant; a histogram has an empty bin.""",
    why="""\
Floating-point numbers have no room between 1 and the next smaller one: about `6e-8`. So a probability that is sure
enough becomes 0 or 1, the better the model gets, the sooner. PyTorch follows the standard for floating point and
raises nothing; the nan shows wherever it is printed, and every parameter has it one step later.""",
    example="""\
p = torch.sigmoid(logits)
loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()""",
    use_instead="""\
loss = F.binary_cross_entropy_with_logits(logits, y)  # or F.logsigmoid(logits), F.log_softmax(logits, dim=1)""",
    fix_safety="""\
Unsafe: `clamp_min` bounds the logarithm, and an element below the bound sends no gradient. That is what a loss of
this kind needs in practice, but it is a choice. Better where the logits are at hand: `F.logsigmoid`, `F.log_softmax`
or a loss `…_with_logits`, which are exact and send a gradient everywhere.""",
    not_this="""\
- The zeros come from `exp` of something very negative, to be summed and taken the logarithm of again:
  `torch.logsumexp` does that without leaving the range (`nan-exp-overflow`).
- The logarithm is left out by a `torch.where` and only its gradient is nan: `nan-where-branch`.""",
    references=("torch.log", "torch.nn.functional.binary_cross_entropy_with_logits"),
)


@explained("nan-log-of-zero")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is the result of a logarithm, or the gradient behind one."""
    point = singular_point(birth.operation)
    return _shifted(trouble, birth, point) if point is not None else _at_zero(trouble, birth)


def _at_zero(trouble: Trouble, birth: Birth) -> Words:
    operand = called(trouble, birth)
    numbers = birth.operand
    negative = numbers is not None and bool(numbers.count("negative")) and birth.shows == "nan" and not birth.node
    kind = "negative" if negative else "zeros"
    what = "goes below zero" if negative else "reaches zero"
    note = "The logarithm is bounded; an element at the bound sends no gradient."
    return Words(
        f"{operand} {what}, and its logarithm is {'nan' if negative else 'not finite'}",
        "the logarithm of a negative number is nan" if negative else "the logarithm of zero is -inf",
        amount(numbers, kind, operand),
        f"{function(trouble, birth)} has no finite value there.",
        _given_logarithms(trouble, birth)
        or _of_exponentials(trouble, birth)
        or kept_above_zero(trouble, birth)
        or guarded(trouble, birth, above_zero("log", numbers), f"Keep {operand} above zero", note),
    )


def _of_exponentials(trouble: Trouble, birth: Birth) -> tuple[Remedy, ...]:
    """For what an exponential has made so small that it is zero: a bound above it would train nothing there."""
    makers = birth.operand.makers if birth.operand is not None else []
    place = next((at for name, at in makers if name == "exp"), None)
    remedies = without_exponential(place)
    return remedies if any(applies(trouble.sources, r) for r in remedies) else ()


def _given_logarithms(trouble: Trouble, birth: Birth) -> tuple[Remedy, ...]:
    """For a divergence whose target has nothing above zero: it may be the logarithm of one."""
    bounds = birth.operand.bounds if birth.operand is not None else None
    if "kl_div" not in trouble.code(birth) or bounds is None or bounds[1] > 0:
        return ()
    title = "Say that the target is a logarithm"
    note = "`F.kl_div` then takes its target as log-probabilities, as it does its input."
    return remedy_at(birth.place, "set_keyword", title, "unsafe", note, name="log_target", value="True")


def _shifted(trouble: Trouble, birth: Birth, point: Singular) -> Words:
    operand = called(trouble, birth)
    edge, beyond, name = point.ends, point.beyond, birth.operation
    numbers = birth.operand
    bounds = numbers.bounds if numbers is not None else None
    outside = not birth.node and bounds is not None and point.leaves(*bounds)
    way = f"Keep {operand} inside of the domain"
    note = "The result is bounded; an element at the bound sends no gradient."
    return Words(
        f"{operand} lies {beyond}, where `{name}` is {'nan' if birth.shows == 'nan' else 'infinite'}"
        if outside
        else f"{operand} reaches {edge}, and `{name}` "
        f"{'has no finite derivative' if birth.node else 'is not finite'} there",
        f"`{name}` has no value {beyond}" if outside else f"`{name}` ends at {edge}",
        f"{operand} lies between {bounds[0]:.8g} and {bounds[1]:.8g}{coarse(numbers)}" if bounds is not None else "",
        f"{function(trouble, birth)} has no finite {'derivative' if birth.node else 'value'} there.",
        guarded(trouble, birth, point.guard_in(numbers.dtype if numbers is not None else ""), way, note),
    )
