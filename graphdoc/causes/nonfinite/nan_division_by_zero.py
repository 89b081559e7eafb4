"""GD604: a division by zero, or the mean of nothing."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble, divisor_of
from graphdoc.program.number_limits import Numbers, above_zero, least_above_zero
from graphdoc.remedies.guarded_value import counts, guarded, kept_above_zero
from graphdoc.story.first_bad_value import Words, amount, called, explained, function

PAGE = Page(
    code="GD604",
    title="Something is divided by zero",
    families=("silent", "invalid-gradient"),
    what_happened="""\
A divisor is zero: `0 / 0` is nan, anything else over zero is infinite. Written out it is a sum over a mask divided by
the number of its elements, where a batch has none; a scale or a step size that has shrunk to exactly zero; a standard
deviation of equal values. Not written out it is the mean of nothing: `x[mask].mean()` of an empty selection, or a
`cross_entropy` whose targets are all `ignore_index`.""",
    why="""\
PyTorch follows the standard for floating point: a mean over no elements is `0 / 0`. Often the gradient of that term
is zero or missing and the network goes on; what has the loss itself for its gradient, a learned weight of the task or
a running average, takes the nan over.""",
    example="loss = (error * mask).sum() / mask.sum()",
    use_instead="loss = (error * mask).sum() / mask.sum().clamp(min=1)",
    fix_safety="""\
Unsafe: a bound on the divisor says that the mean of nothing is zero, which is what a masked loss means by it. For a
divisor that may be negative there is no such bound, and the division has to be left out where it has no value.""",
    not_this="""\
- The divisor is the length of a vector: `nan-norm-at-zero`.
- The divisor is the standard deviation of a single sample: `nan-std-of-one`.
- The quotient is left out by a `torch.where`, and only its gradient is nan: `nan-where-branch`.""",
    references=("torch.div", "torch.nn.functional.cross_entropy"),
)


@explained("nan-division-by-zero")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is a quotient whose divisor is zero, or a mean over no elements."""
    if birth.op.strip("_") in ("mean", "nll_loss_forward", "nll_loss2d_forward") or any(not i.n for i in birth.inputs):
        return _mean_of_nothing(trouble, birth)
    return (_by_little if _is_small(birth, divisor_of(birth)) else _by_zero)(trouble, birth)


def _by_zero(trouble: Trouble, birth: Birth) -> Words:
    operand, numbers = called(trouble, birth, "the divisor"), divisor_of(birth)
    guard = "clamp_min(1)" if counts(birth) else above_zero("division", numbers)
    positive = numbers is not None and not numbers.count("negative")
    whole = counts(birth)
    way = f"Divide by at least {'one' if whole else 'a little'}: bound {operand}"
    remedies = kept_above_zero(trouble, birth, alone=birth.shows == "inf" and not whole) or guarded(
        trouble, birth, guard, way, "Nothing changes where the divisor is above the bound."
    )
    inside = " in the backward of a function of its own" if birth.inner else ""
    title = f"{operand} is zero, and divides something{inside}"
    text = f"{function(trouble, birth)} divides by zero."
    return Words(title, "division by zero", amount(numbers, "zeros", operand), text, remedies if positive else ())


def _is_small(birth: Birth, kept: Numbers | None) -> bool:
    """Whether the divisor was seen and has no zero in it: the quotient is too large then, or its square is zero."""
    if birth.node and not birth.inner:
        return kept is not None and kept.bounds is not None and not kept.count("zeros")
    seen = birth.inputs[1] if birth.op.strip("_") in ("div", "true_divide") and len(birth.inputs) == 2 else None
    return seen is not None and seen.bounds is not None and not seen.count("zeros")


def _by_little(trouble: Trouble, birth: Birth) -> Words:
    operand = called(trouble, birth, "the divisor")
    note = "Nothing changes where the divisor is above the bound."
    divisors = [n for n in (*birth.inputs[1:], birth.saved("other")) if n is not None and n.bounds is not None]
    least = min((n.bounds[0] for n in divisors if n.bounds), default=0.0)
    above = least >= float(least_above_zero("division", birth.operand))  # the bound would change nothing
    large = f" The divisor was {least:.2g} or more: what is divided by it was too large for that already."
    return Words(
        f"{operand} comes so close to zero that what is divided by it is not finite",
        "divides by something very small" + (", squared in its derivative" if birth.node else ""),
        "",
        f"{function(trouble, birth)} divides by very little.{large if above else ''}",
        guarded(trouble, birth, above_zero("division", birth.operand), f"Keep {operand} away from zero", note)
        if not above and not any(n.count("negative") for n in divisors)
        else (),
    )


def _mean_of_nothing(trouble: Trouble, birth: Birth) -> Words:
    loss = birth.op.startswith("nll")
    weighed = loss and len(birth.inputs) > 2
    label = "the mean over targets that are all ignored" if loss else "the mean of no elements is 0 / 0"
    label = "the mean over targets of which none counts" if weighed else label
    what = "All targets of this loss are ignored" if loss else "A mean is taken of no elements"
    what = "Every target of this loss is ignored or has weight zero" if weighed else what
    if loss and any(not i.n for i in birth.inputs):
        label, what = "the mean over no targets at all", "This loss is given no targets"
    title = f"{what}, and its mean is nan" if loss else "A mean of no elements is nan"
    if not loss and birth.operation != "mean":
        title, label = f"`{birth.operation}` is taken of no elements, and is nan", "there are no elements to count"
    title_of_zero, note = "Count the mean of no elements as zero", "The mean of nothing counts as zero"
    divided: tuple[Remedy, ...] = ()
    if loss:
        title_of_zero = "Let a loss that is nan be zero"
        divided = remedy_at(
            birth.place,
            "mean_of_some",
            "Divide the sum by the number of targets, at least one",
            "unsafe",
            "The mean of nothing counts as zero; every other one stays as it is.",
        )
    note += "; a nan of another origin in this term is hidden, too, and an infinity becomes the largest number."
    zero = remedy_at(birth.place, "rewrite", title_of_zero, "unsafe", note, pairs=[["{it}", "{it}.nan_to_num(0.0)"]])
    remedies = (*divided, *zero)
    because = "there was nothing to average in this iteration" if not loss else "no target of this iteration counts"
    return Words(title, label, because, f"{function(trouble, birth, 'its mean')} is 0 / 0.", remedies, makers=False)
