"""Which expression says what is left out, however the program calls torch."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.number_limits import mask_at


@pytest.mark.parametrize(
    ("head", "call", "mask"),
    [
        ("import torch", "torch.masked_fill(x, m, 0.0)", "m"),
        ("import torch as th", "th.masked_fill(x, m, 0.0)", "m"),
        ("import torch as th", "x.masked_fill(m, 0.0)", "m"),
        ("import torch as th", "th.where(m, x, y)", "m"),
        ("from torch import masked_fill", "masked_fill", None),
    ],
)
def test_the_mask_of_a_call(head: str, call: str, mask: str | None) -> None:
    frame = Frame("train.py", 2, 5, 2, 5 + len(call), "<module>")
    found = mask_at({"train.py": f"{head}\ny = {call}\n"}, frame)
    assert (found.text if found is not None else None) == mask
