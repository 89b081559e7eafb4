"""GD613: an overflow that single precision would not have."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.number_limits import only_half
from graphdoc.program.spans import where
from graphdoc.story.first_bad_value import Words, explained, function

PAGE = Page(
    code="GD613",
    title="A result is too large for half precision",
    families=("silent", "invalid-gradient"),
    what_happened="""\
Half precision (`float16`) ends at 65504. A sum over many elements, a product of activations, attention scores that
are not scaled, a square or a variance goes beyond it, and the result is infinite. In single precision the same number
is nothing special.""",
    why="""\
`autocast` runs matrix products in half precision and keeps sums, exponentials and losses in single; a model turned
with `.half()`, or a cast written by hand, has no such protection. A GradScaler looks after gradients that are too
large; it does not help where the forward pass overflows.""",
    example="scores = (q.half() @ k.half().transpose(-2, -1)) / d**0.5",
    use_instead="""\
scores = (q.half() / d**0.5) @ k.half().transpose(-2, -1)  # or bfloat16, which has the range of single precision""",
    fix_safety="""\
Unsafe: where the program says `float16` in one place, `bfloat16` there has the range of single precision, and 8 bits
where half precision has 11. Else display: scale before the product, do this step in single precision (`.float()`), or
use `bfloat16`. Which of them fits depends on the hardware and on the precision that is needed.""",
    not_this="""\
- The number would not fit into single precision either: `exploding-gradients` or `nan-exp-overflow`.
- Only the scaled gradients overflow and the GradScaler leaves the step out: nothing is wrong.""",
    references=(("Automatic mixed precision", "amp.html"), ("torch.finfo", "type_info.html")),
)


@explained("nan-half-overflow")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is infinite in half precision, made of numbers that are far from the end of single's."""
    largest = max((i.largest for i in birth.inputs if i.bounds is not None), default=None)
    size = f"its input is at most {largest:.4g} in size" if largest is not None else ""
    room = birth.operation not in _REPEATED
    title = f"The result of {function(trouble, birth, 'an operation')} is too large for {birth.output.dtype}"
    label = f"larger than {birth.output.dtype} can hold"
    because = "; ".join(t for t in (size, "single precision has room for the result" if room else "") if t)
    note = "Half precision ends at 65504."
    remedies = (
        *_of_more_range(trouble),
        Remedy("single_precision", "Compute this in single precision or bfloat16, or scale before", "display", note),
    )
    return Words(title, label, because, "half precision cannot hold the result, which becomes infinite.", remedies)


def _of_more_range(trouble: Trouble) -> tuple[Remedy, ...]:
    """``bfloat16`` in the one place where the program says half precision."""
    half = only_half(trouble.sources)
    if half is None:
        return ()
    note = "bfloat16 has the range of single precision; it keeps 8 bits of each number, half precision 11."
    title = f"Use bfloat16 instead of float16, at {where(half[0])}"
    return remedy_at(half[0], "rewrite", title, "unsafe", note, pairs=[half[1]])


_REPEATED = ("prod", "cumprod", "pow", "float_power", "exp", "exp2", "expm1", "sinh", "cosh")
"""Results that may leave single precision too, of numbers that half precision holds."""
