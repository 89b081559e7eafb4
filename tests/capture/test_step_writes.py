"""The table of what a step adds to the version counters, against PyTorch's own optimizers."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import optim

from graphdoc.capture.graph.autopsy import UNKNOWN, versions_of

OPTIONS: dict[str, Any] = {
    "momentum": 0.9,
    "nesterov": True,
    "weight_decay": 0.1,
    "centered": True,
    "amsgrad": True,
    "maximize": True,
    "foreach": True,
    "fused": True,
    "capturable": True,
    "decoupled_weight_decay": True,
    "lr_decay": 0.1,
}
NAMES = sorted(
    n
    for n, c in vars(optim).items()
    if isinstance(c, type) and issubclass(c, optim.Optimizer) and c not in (optim.Optimizer, optim.LBFGS)
)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def made(name: str, device: str) -> Iterator[tuple[dict[str, Any], optim.Optimizer, list[torch.nn.Parameter]]]:
    """The optimizer with none, one and two of its options, and with no weight decay at all; what it refuses is left."""
    cls = getattr(optim, name)
    known = [o for o in OPTIONS if o in inspect.signature(cls.__init__).parameters]
    for count in range(3):
        for chosen in itertools.combinations(known, count):
            for more in ({}, {"weight_decay": 0}):
                options = {"lr": 0.1, **{o: OPTIONS[o] for o in chosen}}
                if more and ("weight_decay" in chosen or "weight_decay" not in known):
                    continue
                parameters = [torch.nn.Parameter(torch.ones(3, 3, device=device)) for _ in range(2)]
                try:
                    optimizer = cls(parameters, **options, **more)
                except (ValueError, RuntimeError):
                    continue  # these do not go together
                yield {**options, **more}, optimizer, parameters


def counted(optimizer: optim.Optimizer, parameters: list[torch.nn.Parameter], sparse: bool = False) -> list[int]:
    """How far the first parameter's version moves in each of three steps; none where it cannot step like this here."""
    moved = []
    for sign in (1, -1, 1):
        for p in parameters:
            p.grad = (torch.ones_like(p) * sign).to_sparse() if sparse else torch.ones_like(p) * sign
        before = parameters[0]._version
        try:
            optimizer.step()
        except AssertionError as e:
            assert "capturable" in str(e), e  # noqa: PT017 (on a CPU it steps only without it)
            return []
        moved.append(parameters[0]._version - before)
    return moved


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_a_step_adds_what_the_table_says(name: str, device: str) -> None:
    tried = 0
    for options, optimizer, parameters in made(name, device):
        moved = counted(optimizer, parameters, sparse=name == "SparseAdam")
        assert set(moved) <= {versions_of(optimizer, parameters[0])}, (options, moved)
        tried += bool(moved)
    assert tried


def test_the_group_of_the_parameter_counts() -> None:
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    groups: list[dict[str, Any]] = [{"params": [a]}, {"params": [b], "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups)
    without = 1 if "decoupled_weight_decay" in optimizer.defaults else 2  # PyTorch 2.6 decays by a factor of one
    assert (versions_of(optimizer, a), versions_of(optimizer, b)) == (2, without)


def test_what_is_not_pytorchs_own_is_not_known() -> None:
    class Adam(optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            pass

    class Named(optim.Adam):
        """Steps as its parent does."""

    parameter = torch.nn.Parameter(torch.ones(2))
    assert versions_of(Adam([parameter], {}), parameter) == UNKNOWN
    assert versions_of(Named([parameter]), parameter) == 1
    assert versions_of(optim.LBFGS([parameter]), parameter) == UNKNOWN
    assert versions_of(optim.SGD([parameter], 0.1), torch.ones(2)) == UNKNOWN
    assert versions_of(optim.Adam([parameter], differentiable=True), parameter) == UNKNOWN
