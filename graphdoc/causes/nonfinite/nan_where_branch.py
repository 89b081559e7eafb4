"""GD605: the unused branch of a where."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.spans import span_of
from graphdoc.remedies.fix_places import applies
from graphdoc.remedies.guarded_value import bounded, branches
from graphdoc.story.first_bad_value import Words, called, explained, function

PAGE = Page(
    code="GD605",
    title="The branch that `torch.where` does not take sends nan into the gradient",
    families=("silent", "invalid-gradient"),
    what_happened="""\
`torch.where(condition, a, b)` takes the finite branch for each element, and the loss is fine. Backward goes through
both branches: the one that was not taken gets a gradient of zero, and its own derivative there is infinite or nan, so
what flows on is `0 * inf`, which is nan. A mask that multiplies by zero, `masked_fill`, `nanmean` and `nansum` do the
same.""",
    why="""\
Both branches have been computed for all elements before `torch.where` chooses. Autograd knows no branch that is not
taken, only a gradient that is zero, and zero times infinity has no value.""",
    example="y = torch.where(x > 0, torch.log(x), torch.zeros_like(x))",
    use_instead="""\
safe = torch.where(x > 0, x, torch.ones_like(x))  # whatever the function can take
y = torch.where(x > 0, torch.log(safe), torch.zeros_like(x))""",
    fix_safety="""\
Safe in its meaning: what is chosen instead never reaches the result, neither forward nor backward. It is told as
display where the branch has several lines, since which value the branch can take is for its author to say.""",
    not_this="""\
- The result of the function is used where it is not finite: `nan-log-of-zero`, `nan-sqrt-at-zero` and their like.
- The data itself has nan, and the mask is meant to leave it out: `nan-input-data`.""",
    references=(
        "torch.where",
        (
            "Autograd mechanics: gradients for non-differentiable functions",
            "notes/autograd.html#gradients-for-non-differentiable-functions",
        ),
    ),
)


@explained("nan-where-branch")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The loss is finite, and the gradient behind a branch that was left out is not."""
    chosen = birth.chosen or next((b.chosen for b in trouble.others if b.chosen is not None), None)
    operand = called(trouble, birth)
    more = span_of("related", chosen, "drops these elements, but backward computes 0 * nan for them")
    what = function(trouble, birth)
    title = "Give the branch that is not taken a harmless input"
    note = "The harmless input never reaches the result: the same `where` leaves it out."
    harmless = remedy_at(chosen or birth.place, "where_twice", title, "unsafe", note, branches=branches(trouble, birth))
    fits = any(applies(trouble.sources, r) for r in harmless)
    masked = bool(chosen) or fits
    root = birth.node and birth.group == "sqrt"  # it has a value there
    lacks = "its derivative is infinite" if root else "it has no value"
    return Words(
        f"{what} is masked where {lacks}, but its gradient is not"
        if masked
        else f"{what} is not finite where the loss does not use it, and its gradient is nan",
        f"{lacks.removeprefix('it ')} where the mask drops it" if masked else "is not finite in some elements",
        f"the loss of that call is finite, the gradient of {operand} is not"
        if trouble.what != "loss"
        else f"the gradient of {operand} is not finite, and this loss is computed from it",
        "the forward pass drops the bad elements, backward multiplies their nan or inf derivative by zero.",
        harmless if fits else bounded(trouble, birth),
        more=more,
    )
