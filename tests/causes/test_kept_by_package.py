"""A value that a package keeps to itself from one pass to the next: what keeps it, and that it has to be cleared."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import ON_PATH, install
from seen import Seen, observe

FLOWS = {
    "tinyflows.py": """\
        import torch
        from torch import nn


        class Stretch(nn.Module):
            def __init__(self):
                super().__init__()
                self.log_scale = nn.Parameter(torch.zeros(2))
                self._kept_for, self._kept = None, None

            def inverse(self, y):
                if self._kept_for is not y:
                    self._kept_for, self._kept = y, y * self.log_scale.exp()
                return self._kept

            def log_prob(self, y):
                return self.log_scale.sum() - self.inverse(y).square().sum(-1)

            def clear(self):
                self._kept_for, self._kept = None, None
    """
}
HEAD = (
    ON_PATH
    + """
import torch
from tinyflows import Stretch
from torch import nn

torch.manual_seed(0)
flow, data = Stretch(), torch.randn(8, 2)
"""
)
LOOP = (
    HEAD
    + """
optimizer = torch.optim.Adam(flow.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = -flow.log_prob(data).mean()
    loss.backward()
    optimizer.step()
"""
)
IN_TURN = (
    HEAD
    + """
weight = torch.ones(8, requires_grad=True)
(flow.log_prob(data) * weight).sum().backward()
other = torch.ones(8, requires_grad=True)
(flow.log_prob(data) * other).sum().backward()
"""
)
SHARED = (
    HEAD
    + """
first, second = nn.Linear(2, 1), nn.Linear(2, 1)
shared = flow.inverse(data).exp()
first(shared).mean().backward()
second(shared).mean().backward()
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install(tmp_path, "tiny-flows", "0.2", FLOWS)
    return tmp_path


def said(told: Seen) -> str:
    return told.said + " ".join(f"{r.title} {r.note}" for r in told.found[0].finding.remedies)


@pytest.mark.parametrize("code", [LOOP, IN_TURN])
def test_what_a_package_keeps_was_computed_once(folder: Path, code: str) -> None:
    told = observe(folder, code)
    assert told.slugs[0] == "graph-built-once"
    assert "`flow._kept`" in told.found[0].finding.title
    assert "have the package clear `flow._kept` before each pass" in said(told)
    assert "one forward pass" not in said(told)
    assert not told.patches(), "a cut at the call would cut the pass that calls"


def test_it_is_no_fault_where_it_is_cleared(folder: Path) -> None:
    assert observe(folder, LOOP.replace("    optimizer.step()", "    optimizer.step()\n    flow.clear()")).mended


def test_what_the_program_itself_keeps_is_shared_by_its_losses(folder: Path) -> None:
    told = observe(folder, SHARED)
    assert told.slugs[0] == "shared-subgraph-losses"


def test_module_is_not_called_computed(folder: Path) -> None:
    assert "`flow`" not in observe(folder, LOOP).found[0].finding.title
