"""GD603: a norm at zero: divided by, or differentiated twice."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble, divisor_of
from graphdoc.program.bindings import call_at
from graphdoc.program.number_limits import Numbers, above_zero
from graphdoc.remedies.guarded_value import guarded
from graphdoc.source.paths import last_word
from graphdoc.story.first_bad_value import Words, amount, called, explained, function

PAGE = Page(
    code="GD603",
    title="A vector of length zero is divided by its length",
    families=("silent", "invalid-gradient"),
    what_happened="""\
A vector is divided by its own length, and one of them is the zero vector: `0 / 0` is nan in the forward pass. It is
an empty sentence whose word vectors sum to nothing, a padded row, a dead unit, a difference of two equal points. A
softmax or a mean over the batch then spreads the nan to everything.

`weight_norm` divides a weight by its length, so a layer whose weight begins at zero, the last one of a residual branch
say, gives nan from the first batch on.

With `create_graph=True` the second derivative of a norm at zero has no value either: a gradient penalty of a gradient
that is exactly zero.""",
    why="""\
The direction of a zero vector is not defined. PyTorch defines the derivative of a norm at zero as zero, but the
quotient is for the program to define.""",
    example="unit = v / v.norm(dim=-1, keepdim=True)",
    use_instead="unit = F.normalize(v, dim=-1)  # divides by max(norm, 1e-12)",
    fix_safety="""\
Unsafe in name only: `clamp_min` on the length, as `F.normalize` has it, gives the zero vector for the zero vector and
changes no other. Whether such a row should be in the batch at all is another question. Of a weight under `weight_norm`
the length may begin at zero (`parametrizations.weight.original0`), the weight itself may not.""",
    not_this="""\
- The length is written out as a root of a sum of squares and only its gradient is nan: `nan-sqrt-at-zero`.
- The divisor is a count or a sum and not a length: `nan-division-by-zero`.""",
    references=("torch.nn.functional.normalize", "torch.linalg.vector_norm"),
)


@explained("nan-norm-at-zero")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is a quotient by a length that is zero, or a derivative of a norm at zero."""
    if birth.operation == "weight_norm_interface":
        return _of_weight(trouble, birth)
    divided = birth.group == "division"
    operand = called(trouble, birth, "the length")
    numbers = divisor_of(birth) if divided else next((i for i in birth.inputs if i.count("zeros")), None)
    wider = _with_eps(trouble, birth) if numbers is not None and numbers.dtype == "float16" else ()
    note = "A zero vector stays zero, as in `F.normalize`; every other one stays as it is."
    remedies = wider or guarded(trouble, birth, above_zero("norm", numbers), f"Keep {operand} away from zero", note)
    title = (
        f"{operand} is zero, and float16 rounds the default `eps` to zero"
        if wider
        else f"{operand} is zero, and divides something"
        if divided
        else "A norm is differentiated where it is zero"
    )
    label = "divided by a length of zero" if divided else "at zero this norm has no derivative"
    text = f"{function(trouble, birth)} has no value for a vector of length zero."
    return Words(title, label, amount(numbers, "zeros", operand), text, remedies if divided else ())


def _of_weight(trouble: Trouble, birth: Birth) -> Words:
    """A weight that `weight_norm` divides by its length; where that was taken of it is the line to change."""
    weight, length, *_ = (*birth.inputs, Numbers({}), Numbers({}))
    taken = next((frame for op, frame in length.makers if op == "norm" and frame is not None), None)
    filled = next((frame for op, frame in weight.makers if op in ("zero_", "fill_") and frame is not None), None)
    note = "The layer begins with the weight that its constructor draws."
    if length.parameter:
        note += f" What may be zero is the length: `{length.parameter}`."
    title = "Do not fill the weight with zeros under `weight_norm`"
    remedies: tuple[Remedy, ...] = ()
    if taken is not None and filled is not None and filled.in_function_of(taken):
        remedies = remedy_at(filled, "delete_statement", title, "unsafe", note)
    elif taken is not None and filled is not None:
        filling = filled.function.rpartition(".")[2]
        pairs = [[f"{{wrap}}({filling}({{module}}))", "{wrap}({module})"]]
        remedies = remedy_at(taken, "rewrite", title, "unsafe", note, pairs=pairs)
    return Words(
        f"The weight of `{trouble.name(birth)}` is zero, and weight norm divides it by its length",
        "weight norm is given a weight of zero" if taken is not None else "divides a weight of zero by its length",
        amount(weight, "zeros", "the weight"),
        "weight norm has no value for a weight of length zero.",
        remedies or (Remedy("start_at_length", title, "display", note),),
        at=taken,
    )


def _with_eps(trouble: Trouble, birth: Birth) -> tuple[Remedy, ...]:
    """For a function whose own ``eps``, 1e-12 or 1e-8, half precision rounds to zero."""
    call = call_at(trouble.sources, birth.place)
    if call is None or last_word(call.func) not in ("normalize", "cosine_similarity"):
        return ()
    if len(call.args) > 3 or any(k.arg == "eps" for k in call.keywords):
        return ()
    note = "A zero vector stays zero; every other one of at least that length stays as it is."
    return remedy_at(
        birth.place, "set_keyword", "Give it an `eps` that float16 can hold", "unsafe", note, name="eps", value="1e-4"
    )
