"""GD610: a softmax over nothing."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.number_limits import Mask, mask_at
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span
from graphdoc.remedies.guarded_value import guarded
from graphdoc.story.first_bad_value import LONGEST, Words, amount, explained, function

_LOGARITHMS = ("_log_softmax", "log", "log1p", "log2", "log10")

PAGE = Page(
    code="GD610",
    title="A softmax is taken of a row in which everything is masked",
    families=("silent", "invalid-gradient"),
    what_happened="""\
A mask of `-inf` leaves positions out of a softmax. Where a whole row is masked there is nothing to share the weight
among: `exp(-inf)` sums to zero, and `0 / 0` is nan. Such rows are padded queries, empty sequences, a document without
a candidate, a first position that may attend to nothing.

A mask made by multiplying, `(1 - mask) * float("-inf")`, has the same fault everywhere: zero times infinity is nan. So
has an entropy, `(p * p.log()).sum()`, of what a mask has left out: its probability is zero, its logarithm `-inf`.""",
    why="""\
`-inf - (-inf)` has no value. Leaving the row out of the loss afterwards does not help: its gradient is `0 * nan`.""",
    example='weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)',
    use_instead="""\
weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
out, _ = attention(x, x, x, key_padding_mask=pad & ~pad.all(-1, keepdim=True))""",
    fix_safety="""\
Unsafe: with the smallest finite number in the place of `-inf` a row that is masked out entirely gets equal weights
instead of nan, and every other row stays as it is. The result of such rows has no meaning and must stay out of the
loss. A layer that is handed the mask, such as `nn.MultiheadAttention`, writes the `-inf` itself; there the mask spares
the rows that it would empty.""",
    not_this="- The scores themselves overflow before the softmax: `nan-half-overflow` or `exploding-gradients`.",
    references=("torch.softmax", "torch.Tensor.masked_fill_"),
)


@explained("nan-masked-softmax")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """Infinities of a mask have become nan."""
    turned = trouble.turned or birth
    if turned.op.strip("_") == "mul":
        return _multiplied(trouble, turned)
    written = trouble.constant
    filled = written.place if written is not None else None
    mask = mask_at(trouble.sources, filled)
    if filled is not None and mask is None and written is not None and written.kind != "constant":
        filled = None  # it came from elsewhere
    rows = turned.facts.get("rows_out") or 0
    count = f"{rows} {'row' if rows == 1 else 'rows'}"
    name = f"`{mask.text}`" if mask is not None and len(mask.text) <= LONGEST else ""
    label = f"{name or 'the mask'} masks everything in {count}" if rows else "the mask's -inf is written here"
    more = (span("created", mask.frame if mask else filled, label),) if filled is not None else ()
    left_out = " Leaving its result out of the loss does not help: its gradient is `0 * nan`."
    title = (
        f"{name} masks a whole row, and the softmax of that row is nan"
        if name
        else "A whole row is masked, and the softmax of that row is nan"
    )
    label = "the softmax of a row in which everything is masked is nan"
    because = f"in {count} every element is -inf" if rows else ""
    text = f"{function(trouble, turned)} has no value there.{left_out if trouble.what == 'gradient' else ''}"
    return Words(title, label, because, text, _remedies(mask, filled), of=turned, more=more, makers=filled is None)


def _remedies(mask: Mask | None, filled: Frame | None) -> tuple[Remedy, ...]:
    if mask is not None and mask.handed:
        title = "Leave nothing out in a row that would be empty"
        note = "A row that is masked out entirely attends to its padding; every other row stays as it is."
        return remedy_at(
            mask.frame, "rewrite", title, "unsafe", note, pairs=[["{mask}", "{mask} & ~{mask}.all(-1, keepdim=True)"]]
        )
    note = "A row that is masked out entirely gets equal weights; every other row stays as it is."
    return remedy_at(filled, "finite_fill", "Mask with the smallest finite number", "unsafe", note)


def _multiplied(trouble: Trouble, turned: Birth) -> Words:
    """A product of zero and -inf: of a mask that is made so, or of a probability of zero and its logarithm."""
    side = next((n for n, i in enumerate(turned.inputs[:2]) if i.count("minus_inf") and i.made_by(*_LOGARITHMS)), None)
    if side is not None:
        return _zero_times_logarithm(trouble, turned, side)
    return Words(
        "A mask is made by multiplying with -inf, and 0 * -inf is nan",
        "zero times infinity",
        "",
        f"{function(trouble, turned)} has no value there.",
        of=turned,
        confidence=Proof.BIRTH.confidence,  # the -inf is written in the program
    )


def _zero_times_logarithm(trouble: Trouble, turned: Birth, side: int) -> Words:
    factor = trouble.factor(turned, side)
    name = f"`{factor}`" if factor and len(factor) <= LONGEST else "a logarithm"
    title = f"{name} is -inf where it is multiplied by zero, and 0 * -inf is nan"
    text = f"{function(trouble, turned)} is nan for what a mask has left out: its probability is 0, its logarithm -inf."
    way = f"Let {name} count as zero where it is -inf"
    note = "The product is zero there, as its limit is, and sends no gradient; every other one stays as it is."
    remedies = guarded(trouble, turned, "masked_fill({operand}.isneginf(), 0.0)", way, note, side=side)
    return Words(title, "zero times -inf", amount(turned.inputs[side], "minus_inf", name), text, remedies, of=turned)
