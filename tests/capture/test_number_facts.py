"""Which tensors have numbers that can be read in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graphdoc.capture.tensors.number_facts import describe, has_memory, is_finite, numbers_of


class Handled(torch.Tensor):
    """The program's own class runs every operation."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError("asked")


def freed() -> Any:
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    return tensor


def shortened() -> Any:
    tensor = torch.ones(4)[2:]
    tensor.untyped_storage().resize_(12)
    return tensor


def fake() -> Any:
    with FakeTensorMode():
        return torch.ones(4)


UNREADABLE: dict[str, Callable[[], Any]] = {
    "freed": freed,
    "shortened": shortened,
    "fake": fake,
    "meta": lambda: torch.ones(4, device="meta"),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "own-class": lambda: torch.Tensor._make_subclass(Handled, torch.ones(2)),
    "lazy": lambda: torch.nn.UninitializedParameter(),
}
READABLE: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.ones(4),
    "parameter": lambda: torch.nn.Parameter(torch.ones(4)),
    "view": lambda: torch.ones(4, 4).t()[1:, 2:],
    "expanded": lambda: torch.ones(1).expand(9),
    "empty": lambda: torch.ones(0),
    "number": lambda: torch.tensor(1.0),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_no_numbers(kind: str) -> None:
    tensor = UNREADABLE[kind]()
    assert not has_memory(tensor)
    assert numbers_of(tensor) is None


@pytest.mark.parametrize("kind", READABLE)
def test_numbers(kind: str) -> None:
    numbers = numbers_of(READABLE[kind]())
    assert bool((numbers == 1).all())
    assert not numbers.requires_grad


def test_inside_a_transform() -> None:
    told: list[bool] = []
    torch.func.vmap(lambda x: told.append(has_memory(x)) or x.sum())(torch.ones(2, 3))  # type: ignore[func-returns-value]
    assert told == [False]


def test_complex_numbers_are_looked_at() -> None:
    spectrum = torch.tensor([1 + 1j, complex(float("nan"), 0), 0j])
    assert not is_finite(torch, spectrum)
    assert is_finite(torch, spectrum[:1].conj())
    told = describe(torch, spectrum)
    assert (told["nan"], told["zeros"], told["first"]["nan"]) == (1, 1, [1])
