"""GD607: a standard deviation of one sample."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Finding
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.story.first_bad_value import called, explained, function, tell

PAGE = Page(
    code="GD607",
    title="The standard deviation of a single value is nan",
    families=("silent", "invalid-gradient"),
    what_happened="""\
`x.std()` and `x.var()` divide by the number of values less one. For a single value that is `0 / 0`: nan. It comes
with the last batch of an epoch that holds one sample, an episode of one step whose returns are normalised, a group of
one.""",
    why="""\
The default is the unbiased estimate (Bessel's correction), which one value cannot give. PyTorch warns of it once
(*degrees of freedom is <= 0*) and goes on with nan.""",
    example="advantage = (returns - returns.mean()) / (returns.std() + 1e-8)",
    use_instead="advantage = (returns - returns.mean()) / (returns.std(correction=0) + 1e-8)  # 0 for a single value",
    fix_safety="""\
Unsafe: without the correction every standard deviation is smaller by `sqrt((n - 1) / n)`, little for many values. To
leave all others as they are, treat the single value by itself, or let the loader drop the last batch.""",
    not_this="""\
- There are several values, all the same, and the quotient by their deviation is nan: `nan-division-by-zero`.""",
    references=("torch.std", "torch.var"),
)


def _told(trouble: Trouble, birth: Birth) -> Finding:
    """The first bad value is a deviation over no more values than its correction takes off."""
    operand = called(trouble, birth, "the values")
    numbers = next(iter(birth.inputs), None)
    sizes = tuple(numbers.facts.get("shape") or ()) if numbers is not None else ()
    shape = f"{operand} has the shape {sizes}" if numbers is not None else ""
    single = ((numbers is not None and numbers.n == 1) or 1 in sizes) and "correction" not in trouble.code(birth)
    few = "a single value" if single else "no more values than its correction takes off"
    squared, factor = "var" in birth.op, "(n - 1) / n"
    return tell(
        trouble,
        birth,
        f"The {'variance' if squared else 'deviation'} of {operand} is taken over {few}, and is {birth.shows}",
        "divides by the number of values less one: zero"
        if single
        else "divides by the number of values less its correction: zero",
        shape,
        f"{function(trouble, birth)} {'is 0 / 0 for one value' if single else 'divides by zero there'}.",
        remedy_at(
            birth.place,
            "set_keyword",
            f"Take the {'variance' if squared else 'deviation'} without the correction",
            "unsafe",
            f"For one value it is then zero; for n values smaller by {factor if squared else f'sqrt({factor})'}.",
            name="correction",
            value="0",
        ),
    )


recognise = explained("nan-std-of-one", _told)
