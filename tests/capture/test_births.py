"""What a second run knows of values that are not finite, however large they are."""

from __future__ import annotations

import torch

from graphdoc.capture.second_run.births import Births


def _trouble(error: BaseException) -> None:
    raise error


def test_what_is_large_is_not_forgotten() -> None:
    births = Births(_trouble)
    births.active = True
    first, large = torch.zeros(2), torch.zeros(2)
    large.untyped_storage().resize_(300_000_000)  # never touched beyond the first numbers
    with births:
        small, large = first.log(), large.log_()
        torch.zeros(2) + small
    assert [(r.kind, r.func) for r in births.records] == [("birth", "aten.log.default"), ("birth", "aten.log_.default")]


def test_a_number_of_a_memory_is_not_that_of_another() -> None:
    births = Births(_trouble)
    births.active = True
    with births:
        for _ in range(50):
            torch.zeros(2).log()
    later = [torch.full((2,), float("inf")) for _ in range(50)]
    with births:
        for t in later:
            t + 1
    assert [r.kind for r in births.records] == ["birth"] * 50 + ["given"] * 50
