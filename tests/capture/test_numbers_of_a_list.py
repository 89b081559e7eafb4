"""What reads thousands of numbers at once costs the recorder of cuts one look at each of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from graphdoc.capture.second_run.cut_recorder import CutRecorder
from graphdoc.capture.trials.reference import draws

MANY = 3000


class _Counting(CutRecorder):
    kept = 0

    def _keep(self, value: Any, record: Any) -> None:
        self.kept += 1
        super()._keep(value, record)


class _Seeing(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_a_list_of_numbers_is_looked_at_once() -> None:
    numbers = torch.arange(float(MANY))
    with _Counting(SimpleNamespace(torch=torch, journal=SimpleNamespace(count=0))) as recorder:  # type: ignore[arg-type]
        read = numbers.tolist()
    assert len(read) == MANY
    assert MANY <= recorder.kept <= 3 * MANY


def test_no_mode_sees_how_far_the_random_numbers_are_read() -> None:
    with _Seeing() as mode:
        draws(torch)
    assert mode.seen == []
