"""GD607: a standard deviation of one sample."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.bindings import argument, text_of
from graphdoc.source.expressions import name_of
from graphdoc.source.paths import parse_expression
from graphdoc.story.first_bad_value import Words, called, explained, function

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
Unsafe: `correction=int(x.size(0) > 1)` leaves all others as they are and gives zero for a single value. Without any
correction every standard deviation is smaller by `sqrt((n - 1) / n)`, which changes what was finite. Or let the loader
drop the last batch.""",
    not_this="""\
- There are several values, all the same, and the quotient by their deviation is nan: `nan-division-by-zero`.""",
    references=("torch.std", "torch.var"),
)


@explained("nan-std-of-one")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is a deviation over no more values than its correction takes off."""
    operand = called(trouble, birth, "the values")
    numbers = next(iter(birth.inputs), None)
    sizes = tuple(numbers.facts.get("shape") or ()) if numbers is not None else ()
    shape = f"{operand} has the shape {sizes}" if numbers is not None else ""
    single = ((numbers is not None and numbers.n == 1) or 1 in sizes) and "correction" not in trouble.code(birth)
    few = "a single value" if single else "no more values than its correction takes off"
    squared = "var" in birth.op
    return Words(
        f"The {'variance' if squared else 'deviation'} of {operand} is taken over {few}, and is {birth.shows}",
        "divides by the number of values less one: zero"
        if single
        else "divides by the number of values less its correction: zero",
        shape,
        f"{function(trouble, birth)} {'is 0 / 0 for one value' if single else 'divides by zero there'}.",
        (*(_for_several_alone(trouble, birth) if single else ()), *_without(birth, squared)),
    )


def _without(birth: Birth, squared: bool) -> tuple[Remedy, ...]:
    """No correction for any number of values."""
    factor = "(n - 1) / n" if squared else "sqrt((n - 1) / n)"
    title = f"Take the {'variance' if squared else 'deviation'} without the correction"
    note = f"For one value it is then zero; for n values smaller by {factor}."
    found = remedy_at(birth.place, "set_keyword", title, "unsafe", note, name="correction", value="0")
    return tuple(replace(r, open="what is taken over several values was finite, and changes as well") for r in found)


def _for_several_alone(trouble: Trouble, birth: Birth) -> tuple[Remedy, ...]:
    """The correction for several values alone, where the call shows how many it takes."""
    call, values = parse_expression(trouble.code(birth)), trouble.operand(birth)
    if (
        not isinstance(call, ast.Call)
        or name_of(call) not in ("std", "var")
        or not values.replace(".", "").isidentifier()
    ):
        return ()
    position = 0 if text_of(call.func).startswith(f"{values}.") else 1
    dim = argument(call, position, "dim")
    count = "numel()" if dim is None else f"size({text_of(dim)})"
    if len(call.args) > position + 1 or any(k.arg not in ("dim", "keepdim") for k in call.keywords):
        return ()
    if dim is not None and not text_of(dim).lstrip("-").isdigit():
        return ()
    title = "Leave the correction out for a single value"
    note = "It is then zero for one value, without a gradient; nothing changes for several."
    return remedy_at(
        birth.place, "set_keyword", title, "unsafe", note, name="correction", value=f"int({values}.{count} > 1)"
    )
