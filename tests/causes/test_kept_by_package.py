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
MEMOS = {
    "tinymemos.py": """\
        import torch
        from torch import nn


        class Belief:
            def __init__(self, mean, spread):
                self.mean, self.spread = mean, spread


        def forget(module, *_):
            module._memo = {}


        class Layer(nn.Module):
            def _forget(self):
                pass

            def train(self, mode=True):
                if (self.training and not mode) or mode:
                    self._forget()
                return super().train(mode=mode)


        class Guide(Layer):
            def __init__(self):
                super().__init__()
                self.mean, self.log_spread = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
                self._memo = {}

            def _forget(self):
                forget(self)

            @property
            def belief(self):
                if "belief" not in self._memo:
                    self._memo["belief"] = Belief(self.mean * 1, self.log_spread.exp())
                return self._memo["belief"]

            def reset(self):
                self._memo.clear()
                nn.init.zeros_(self.mean)
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

REMEMBERED = (
    ON_PATH
    + """
import torch
from tinymemos import Guide

torch.manual_seed(0)
guide = Guide()
optimizer = torch.optim.Adam(guide.parameters(), lr=0.1)
for step in range(3):
    belief = guide.belief
    loss = (belief.mean - 1).square().sum() + (belief.spread * belief.spread).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install(tmp_path, "tiny-flows", "0.2", FLOWS)
    return tmp_path


def said(told: Seen) -> str:
    return told.said + " ".join(f"{r.title} {r.note}" for r in told.found[0].finding.remedies)


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("code", "when"),
    [(LOOP, "in each iteration, before the value is computed"), (IN_TURN, "before it is computed again")],
)
def test_what_a_package_keeps_was_computed_once(folder: Path, code: str, when: str) -> None:
    told = observe(folder, code)
    assert told.slugs[0] == "graph-built-once"
    assert "`flow._kept`" in told.found[0].finding.title
    assert f"call `flow.clear()` {when}: tiny-flows 0.2 then clears `flow._kept` (tinyflows.py:20)" in said(told)
    assert "one forward pass" not in said(told)
    assert not told.patches(), "a cut at the call would cut the pass that calls"


def test_no_call_is_told_where_no_method_only_clears(tmp_path: Path) -> None:
    text = FLOWS["tinyflows.py"].replace("def clear(self):", "def clear(self):\n                self.steps = 1")
    install(tmp_path, "tiny-flows", "0.2", {"tinyflows.py": text})
    assert "have the package clear `flow._kept` before each pass" in said(observe(tmp_path, LOOP))


@pytest.fixture
def memos(tmp_path: Path) -> Path:
    install(tmp_path, "tiny-memos", "0.3", MEMOS)
    return tmp_path


def test_training_mode_is_told_to_clear_what_modules_memoise(memos: Path) -> None:
    told = observe(memos, REMEMBERED)
    assert told.slugs[0] == "graph-built-once"
    assert "call `guide.train()` in each iteration" in said(told)
    assert "tiny-memos 0.3 then clears `guide._memo` (tinymemos.py:11)" in said(told)
    assert "reset()" not in said(told), "it does more than clear"


def test_training_mode_that_clears_is_no_fault(memos: Path) -> None:
    assert observe(memos, REMEMBERED.replace("    belief = ", "    guide.train()\n    belief = ")).mended


def test_what_the_program_keeps_beside_is_not_cleared_by_a_call(memos: Path) -> None:
    code = REMEMBERED.replace("for step", "belief = guide.belief\nfor step").replace("    belief = guide.belief\n", "")
    told = observe(memos, code)
    assert told.slugs[0] == "graph-built-once"
    assert "train()" not in said(told)


def test_it_is_no_fault_where_it_is_cleared(folder: Path) -> None:
    assert observe(folder, LOOP.replace("    optimizer.step()", "    optimizer.step()\n    flow.clear()")).mended


def test_what_the_program_itself_keeps_is_shared_by_its_losses(folder: Path) -> None:
    told = observe(folder, SHARED)
    assert told.slugs[0] == "shared-subgraph-losses"


def test_module_is_not_called_computed(folder: Path) -> None:
    assert "`flow`" not in observe(folder, LOOP).found[0].finding.title
