"""GD616: nan or inf in the data."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import remedy_at
from graphdoc.model import Span
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_at, span
from graphdoc.story.first_bad_value import Words, amount, explained, function

PAGE = Page(
    code="GD616",
    title="The data has values that are not numbers",
    families=("silent", "invalid-gradient"),
    what_happened="""\
No operation has made the nan: it was in the data. An empty field of a table is read as nan, a sensor writes `inf` for
*no reading*, a target is marked as missing by nan. It goes through the first batch that holds such a row, which may
be thousands of steps into the training.""",
    why="""\
`nanmean`, `nansum` and a mask that multiplies leave such elements out of the *value* of a loss. Their gradient is `0
* nan` all the same: what is to be left out must be left out before anything is computed with it.""",
    example="loss = torch.nanmean((prediction - target) ** 2)",
    use_instead="""\
known = ~torch.isnan(target)
loss = ((prediction[known] - target[known]) ** 2).mean()""",
    fix_safety="""\
Unsafe: which rows to leave out, or what to fill in for them, is a question about the data. Selecting the known
elements before computing is right for a target that is marked as missing.""",
    not_this="""\
- An operation made the nan of finite data: the other causes of this group.
- The mask's own `-inf` became nan: `nan-masked-softmax`.""",
    references=("torch.nanmean", "torch.isnan"),
)


@explained("nan-input-data")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value came in from outside: no operation of PyTorch has made it."""
    return _written(trouble, birth) if birth.kind == "constant" else _came_in(trouble, birth)


def _came_in(trouble: Trouble, birth: Birth) -> Words:
    numbers = next((i for i in birth.inputs if i.count("nan") or i.count("inf")), None)
    name = f"`{numbers.held}`" if numbers is not None and numbers.held else "the data"
    kind = "nan" if numbers is not None and numbers.count("nan") else "inf"
    loaded, used = innermost_at(birth.facts.get("loaded")), innermost_at(birth.facts.get("met")) or birth.place
    # Then through memory that it shares, with an array.
    written = loaded is None and numbers is not None and bool(numbers.makers)
    known = trouble.what == "gradient"  # the loss leaves them out: the program knows of them
    at, label = (
        (used, "computes with them, and sends 0 * nan back") if known else (loaded, "comes in with these values")
    )
    more: tuple[Span, ...] = ()
    if loaded is not None and used is not None:
        more = (span("created", loaded, "comes in here") if known else span("consumed", used, ""),)
    title = "select what is known before computing with it"
    note = "Elements that are nan in the data take no part, neither in the loss nor in its gradient."
    return Words(
        f"{name} holds {kind}, which no operation of PyTorch has made",
        label if at is not None else "first used here",
        amount(numbers, kind, name),
        "something else than PyTorch has written them since it was made."
        if written
        else "the data came in with these values.",
        remedy_at(used if known else None, "select_known", title, "unsafe", note, side=birth.facts.get("met_side")),
        confidence="likely" if written else None,
        at=at,
        more=more,
    )


def _written(trouble: Trouble, birth: Birth) -> Words:
    """Values that a function of the program's own has made as such: ``torch.full(n, nan)``."""
    made = function(trouble, birth, "a function")
    title = f"{made} makes {birth.shows} as a constant, which goes into the computation"
    label = "made with these values"
    return Words(title, label, "", f"{made} was asked for these values.", confidence=Proof.BIRTH.confidence)
