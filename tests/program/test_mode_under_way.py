"""A block that keeps operations from being recorded: whether a failing line runs within it."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.program.cuts import mode_under_way
from graphdoc.remedies.recording import told_under_way

SCRIPTED = """
from typing import List, Optional

net = nn.Linear(2, 1)

@torch.jit.script
def slope(y: torch.Tensor, x: torch.Tensor):
    ones: List[Optional[torch.Tensor]] = [torch.ones_like(y)]
    return torch.autograd.grad([y], [x], grad_outputs=ones)[0]

def validate(mode):
    with mode():
        x = torch.randn(3, 2).requires_grad_()
        {inside}
    {behind}

validate(torch.{mode})
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("mode", ["inference_mode", "no_grad"])
def test_a_failure_within_the_block(mode: str, tmp_path: Path) -> None:
    program = asked(tmp_path, SCRIPTED.format(mode=mode, inside="return slope(net(x), x)", behind="pass"))
    found = mode_under_way(program.sources, program.evidence.extras, program.raised)
    assert found is not None and found[0] == mode and found[1].function == "validate"
    told = told_under_way(program)
    assert told is not None and told.confidence == "likely" and f"`{mode}`" in told.title


def test_a_failure_behind_the_block(tmp_path: Path) -> None:
    code = SCRIPTED.format(mode="no_grad", inside="y = net(x)", behind="return slope(y, x)")
    program = asked(tmp_path, code)
    assert mode_under_way(program.sources, program.evidence.extras, program.raised) is None
