"""Whether a value is the logarithm of one class's probability, however it was taken out of those of all classes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from graphdoc.capture.audit.constants import _scored

TAKEN = torch.tensor([1, 0, 2, 1])
ONE_HOT = F.one_hot(TAKEN, 3)
CHOSEN = {
    "one number": lambda z: z.log_softmax(-1)[2][1],
    "of the batch of one": lambda z: z.log_softmax(-1)[None][0, 2, 1],
    "take_along_dim": lambda z: z.log_softmax(-1).take_along_dim(TAKEN[:, None], dim=1),
    "product": lambda z: (z.log_softmax(-1) * ONE_HOT).sum(-1),
    "before the logarithm": lambda z: (z.softmax(-1)[range(4), TAKEN] + 1e-8).log(),
    "clamped": lambda z: z.softmax(-1).gather(1, TAKEN[:, None]).clamp(min=1e-8).log(),
    "behind the logarithm": lambda z: z.softmax(-1).log()[0, 1],
}
OTHERS = {
    # One class of every row: nobody has drawn it.
    "a column": lambda z: z.log_softmax(1)[:, 1],
    "one of several": lambda z: z.log_softmax(-1).unbind(-1)[0],
    "one wide": lambda z: z.log_softmax(-1)[:, 1:2].squeeze(-1),
    "split": lambda z: z.log_softmax(-1).split(1, dim=-1)[1].flatten(),
    "index_select": lambda z: z.log_softmax(-1).index_select(1, TAKEN[:1]),
    "a row": lambda z: z.log_softmax(-1)[2],
    "a row of a batch": lambda z: z.log_softmax(-1)[None].unbind(1)[0],
    "of another softmax": lambda z: z.log_softmax(0)[:, 1],
    "two columns": lambda z: z.log_softmax(-1)[:, :2],
    "weighed": lambda z: (z.log_softmax(-1) * torch.full((4, 3), 0.3)).sum(-1),
    "masked rows": lambda z: z.log_softmax(-1) * torch.tensor([[1.0], [0.0], [1.0], [1.0]]),
    "of all": lambda z: z.softmax(-1).log(),
}


@pytest.mark.parametrize("name", [*CHOSEN, *OTHERS])
def test_a_class_is_chosen_in_the_dimension_of_the_softmax(name: str) -> None:
    value = {**CHOSEN, **OTHERS}[name](torch.randn(4, 3, requires_grad=True))
    product = (value * torch.ones((), requires_grad=True)).grad_fn
    assert [weighed for weighed, *_ in _scored(product)] == ([1] if name in CHOSEN else [])
