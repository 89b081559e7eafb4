"""Gradients of one size are told apart by their direction."""

from __future__ import annotations

import pytest
import torch

from graphdoc.capture.trials.trace import measured
from graphdoc.verify.traces import Size, apart, difference

G = torch.randn(60, 80, generator=torch.Generator().manual_seed(0))


def size(gradient: torch.Tensor) -> Size:
    return Size.of(measured(torch, gradient))


@pytest.mark.parametrize(
    "other", [-G, G.flip(0), G.roll(1), G * torch.where(G > 0, 1.0, -1.0)], ids=["minus", "rows", "moved", "absolute"]
)
def test_gradients_of_one_size_are_apart(other: torch.Tensor) -> None:
    assert float(size(G)) == pytest.approx(float(size(other)))
    assert 0.3 < apart(size(G), size(other)) < 4
    assert difference({"w": size(G)}, {"w": size(other)}) > 0.3


def test_rounding_sets_nothing_apart() -> None:
    assert apart(size(G), size(G.clone())) == 0
    noisy = G * (1 + 1e-6 * torch.randn(60, 80, generator=torch.Generator().manual_seed(1)))
    assert apart(size(G), size(noisy)) < 1e-6


def test_what_is_tiny_beside_the_others_is_measured_against_these() -> None:
    assert difference({"w": size(G), "b": size(G * 1e-9)}, {"w": size(G), "b": size(-G * 1e-9)}) < 1e-5


def test_a_trace_without_directions_is_compared_by_size() -> None:
    assert Size.of(2.0) == 2.0 and Size.of([2.0]) == 2.0
    assert apart(Size.of(2.0), size(G)) > 0.9 and apart(Size.of(2.0), Size.of(2.0)) == 0
