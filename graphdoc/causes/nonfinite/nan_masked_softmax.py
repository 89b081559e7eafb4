"""GD610: a softmax over nothing."""

from __future__ import annotations

from graphdoc.causes.base import Cause, Page
from graphdoc.finding import Finding
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.story.first_bad_value import function, tell, trouble_with

SLUG = "nan-masked-softmax"
TITLE = "A softmax is taken of a row in which everything is masked"

PAGE = Page(
    what_happened="""\
A mask of `-inf` leaves positions out of a softmax. Where a whole row is masked there is nothing to share the weight
among: `exp(-inf)` sums to zero, and `0 / 0` is nan. Such rows are padded queries, empty sequences, a document without
a candidate, a first position that may attend to nothing.

A mask made by multiplying, `(1 - mask) * float("-inf")`, has the same fault everywhere: zero times infinity is nan.
""",
    why="""\
`-inf - (-inf)` has no value. Leaving the row out of the loss afterwards does not help: its gradient is `0 * nan`.
""",
    example="""\
weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
""",
    use_instead="""\
weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
""",
    fix_safety="""\
Unsafe: with the smallest finite number in the place of `-inf` a row that is masked out entirely gets equal weights
instead of nan, and every other row stays as it is. The result of such rows has no meaning and must stay out of the
loss.
""",
    not_this="""\
- The scores themselves overflow before the softmax: `nan-half-overflow` or `exploding-gradients`.
""",
    references=(
        ("torch.softmax", "https://docs.pytorch.org/docs/stable/generated/torch.softmax.html"),
        ("torch.Tensor.masked_fill_", "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_fill_.html"),
    ),
)


def recognise(program: Program) -> Finding | None:
    """Infinities of a mask have become nan."""
    found = trouble_with(program.trouble, SLUG)
    return _told(*found) if found is not None else None


def _told(trouble: Trouble, birth: Birth) -> Finding:
    turned = trouble.turned or birth
    rows = turned.facts.get("rows_out") or 0
    multiplied = turned.op.strip("_") == "mul"
    mask = trouble.constant
    filled = mask.place if mask is not None and mask.kind == "constant" else None
    more = (span("created", filled, "the mask's -inf is written here", trouble.sources),) if filled is not None else ()
    remedies = remedy_at(
        filled,
        "finite_fill",
        "Mask with the smallest finite number",
        "unsafe",
        "A row that is masked out entirely gets equal weights; every other row stays as it is.",
    )
    return tell(
        trouble,
        turned,
        "A mask is made by multiplying with -inf, and 0 * -inf is nan"
        if multiplied
        else "Everything is masked in a row of a softmax, which is nan then",
        "zero times infinity" if multiplied else "nothing is left in a row to share the weight among",
        f"in {rows} {'row' if rows == 1 else 'rows'} every element is -inf" if rows and not multiplied else "",
        f"{function(trouble, turned)} has no value there.",
        remedies,
        confidence=Proof.BIRTH.confidence if multiplied else None,  # the -inf is written in the program
        more=more,
    )


CAUSE = Cause(
    code="GD610",
    slug=SLUG,
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("silent", "invalid-gradient"),
)
