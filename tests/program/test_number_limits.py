"""A bound keeps what it is given where the function has a value: in the type in which that is computed."""

import pytest
import torch

from graphdoc.program.number_limits import Numbers, above_zero, singular_point

FUNCTIONS = [
    ("log", torch.log),
    ("sqrt", torch.sqrt),
    ("sqrt", torch.rsqrt),
    ("norm", lambda length: 1.0 / length),
    ("division", lambda divisor: 1.0 / divisor),
]


def _of_zero(function, guard: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.zeros((), dtype=dtype, requires_grad=True)
    value = function(eval(f"x.{guard}", {"x": x}))
    return value, torch.autograd.grad(value, x)[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("group", "function"), FUNCTIONS)
def test_the_least_above_zero_is_above_it_in_its_type(group, function, dtype: str) -> None:
    guard = above_zero(group, Numbers({"dtype": dtype}))
    assert all(found.isfinite() for found in _of_zero(function, guard, getattr(torch, dtype)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_entropy_is_bounded_in_its_type(dtype: str) -> None:
    point = singular_point("special_entr")
    assert point is not None
    found = _of_zero(torch.special.entr, point.guard_in(dtype), getattr(torch, dtype))
    assert all(n.isfinite() for n in found)


def test_a_sum_has_no_bound() -> None:
    assert above_zero("", None) == ""
