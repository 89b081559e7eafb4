"""A gradient that a later pass has saved, and to which the very backward call adds that needs it."""

from __future__ import annotations

from pathlib import Path

from seen import observe

CODE = """
import torch
from torch import nn
torch.manual_seed(0)
update = nn.Linear(3, 3)
x = torch.randn(2, 3, requires_grad=True)
state = torch.zeros(2, 3)
total = 0
(x ** 2).sum().backward()
state = torch.tanh(update(x.grad))
((x + state) ** 2).sum().backward()
"""


def test_backward_itself_is_told_to_write(tmp_path: Path) -> None:
    found = observe(tmp_path, CODE)
    finding = found.found[0].finding
    assert found.slugs[0] == "buffer-updated-in-place"
    assert finding.title.startswith("backward itself adds to")
    assert "`.grad` of a leaf" in finding.explanation and "before this backward" not in finding.explanation


def test_a_write_between_the_two_is_told_as_that(tmp_path: Path) -> None:
    code = CODE.replace("((x + state)", "x.grad.add_(1)\n((x.detach() + state)")
    finding = observe(tmp_path, code).found[0].finding
    assert "before this backward" in finding.explanation
