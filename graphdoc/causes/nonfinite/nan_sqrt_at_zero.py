"""GD602: a square root at zero, or of a negative number."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.number_limits import above_zero
from graphdoc.remedies.guarded_value import guarded
from graphdoc.story.first_bad_value import Words, amount, called, explained, function

PAGE = Page(
    code="GD602",
    title="The derivative of a square root is infinite at zero",
    families=("silent", "invalid-gradient"),
    what_happened="""\
The square root of zero is zero, and the forward pass shows nothing. Its derivative `1 / (2 * sqrt(x))` is infinite
there; multiplied with a zero before or after it (`0 * inf`) it is nan. The typical place is a
distance written out by hand, `((a - b) ** 2).sum(-1).sqrt()`, for two points that are the same: a padded pair, a
sample compared with itself, a pair of equal embeddings.

Of a number below zero, such as a variance that rounding has made `-1e-9`, the root itself is nan.""",
    why="""\
Autograd multiplies derivatives. An infinite one times zero has no value, also where a mask multiplies the result by
zero afterwards: `0 * nan` is nan. The loss of that step is finite still; the gradient is not, and with the next step
every parameter that it reached is lost.""",
    example="distance = ((a - b) ** 2).sum(-1).sqrt()",
    use_instead="distance = torch.linalg.vector_norm(a - b, dim=-1)  # its derivative at zero is defined as zero",
    fix_safety="""\
Unsafe: `clamp_min` under the root keeps every distance above its bound as it is and sends no gradient below it.
`torch.linalg.vector_norm` and `torch.cdist` define the derivative at zero as zero and change no number at all.""",
    not_this="""\
- A vector is divided by its length, and the length is zero: `nan-norm-at-zero`.
- The root is one branch of a `torch.where` that takes the other one there: `nan-where-branch`.""",
    references=("torch.sqrt", "torch.linalg.vector_norm"),
)


@explained("nan-sqrt-at-zero")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is a root of a negative number, or the gradient behind a root that is zero."""
    operand = called(trouble, birth, "what is under the root")
    negative = not birth.node and birth.shows == "nan"
    times_zero = ", and zero times that is nan" if birth.shows == "nan" or trouble.turned is not None else ""
    kept = birth.saved("result", "self")
    numbers = kept or next((i for i in birth.inputs if i.count("negative" if negative else "zeros")), None)
    if negative:
        title = f"{operand} goes below zero, and its square root is nan"
        label = "the root of a negative number is nan"
        explanation = f"{function(trouble, birth)} has no value below zero."
    elif birth.node:
        title = f"{operand} is zero, where the square root has an infinite derivative"
        label = "at zero the derivative is infinite"
        explanation = f"the derivative of {function(trouble, birth)} is infinite at zero{times_zero}."
    else:
        title = f"{operand} is zero, and one over its root is infinite"
        label = "one over the root of zero"
        explanation = f"{function(trouble, birth)} is infinite at zero."
    because = amount(numbers, "negative" if negative else "zeros", "the root" if kept is not None else "the input")
    note = "Roots of larger numbers stay as they are; at the bound no gradient flows."
    remedies = guarded(trouble, birth, above_zero("sqrt", numbers), "Keep what is under the root above zero", note)
    return Words(title, label, because, explanation, remedies)
