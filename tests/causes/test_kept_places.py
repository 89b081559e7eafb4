"""What keeps a tensor for a later pass is told: the attribute that is set, not a local name spelled as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import Seen, observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

HISTORY = """
class History:
    def __init__(self, scores):
        self.scores = scores
    def __getitem__(self, index):
        scores = self.scores[index]
        return History(scores)
    def extend(self, other):
        self.scores = torch.cat([self.scores, other.scores])


net, bias = nn.Linear(4, 1), nn.Parameter(torch.zeros(()))
opt = torch.optim.SGD([*net.parameters(), bias], lr=0.1)
history = History(torch.zeros(0, 1))
for _ in range(3):
    history.extend(History(net(torch.rand(2, 4)).tanh()))
    history = history[-6:]
    loss = (history[:2].scores + bias).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

CELL = """
def advance(x, level, gain):
    level = torch.tanh(gain * level + x)
    return level, level * 2


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.gain = nn.Linear(3, 3), nn.Parameter(torch.tensor(0.5))
        self.reset()
    def reset(self):
        self.level = torch.zeros(1, 3)
    def forward(self, x):
        h = self.level
        h, out = advance(self.fc(x), h, self.gain)
        KEEP
        return out


net = Cell()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    out = net(torch.rand(2, 3))
    opt.zero_grad()
    out.pow(2).mean().backward()
    opt.step()
"""

OUTPUT = CELL.replace("return level, level * 2", "return level, level").replace("KEEP", "self.level = out")

TWO_WAYS = """
class Integrator:
    def __init__(self):
        self.slopes = []
    def first_order(self, x, slope):
        self.slopes.append(slope)
        return x + slope
    def second_order(self, x, slope):
        self.slopes.append(slope)
        return x + sum(self.slopes[-2:]) / 2


net, integrator = nn.Linear(3, 3), Integrator()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.rand(2, 3)
    slope = net(x).tanh()
    x = integrator.second_order(x, slope)
    opt.zero_grad()
    x.pow(2).mean().backward()
    opt.step()
"""


def seen(folder: Path, code: str) -> Seen:
    return observe(folder, HEAD + code)


def test_a_history_is_told_where_it_grows_and_not_where_a_part_is_read(tmp_path: Path) -> None:
    assert seen(tmp_path, HISTORY).lines("cause")[0] == "self.scores = torch.cat([self.scores, other.scores])"


@pytest.mark.parametrize("keeping", ["self.level = h", "self.level, _ = h, out", 'setattr(self, "level", h)'])
def test_the_attribute_is_told_and_not_a_function_s_name_like_it(tmp_path: Path, keeping: str) -> None:
    found = seen(tmp_path, CELL.replace("KEEP", keeping))
    assert found.slugs[0] == "carried-state"
    assert found.lines("cause")[0] == keeping
    assert "self.level = torch.zeros(1, 3)" not in found.lines("cause")


def test_where_no_statement_keeps_it_the_making_is_called_so(tmp_path: Path) -> None:
    found = seen(tmp_path, CELL.replace("KEEP", "for name in ['level']: setattr(self, name, h)"))
    labels = {s.label for s in found.found[0].finding.spans if s.role == "cause"}
    assert labels == {"made here with its graph"}


def test_a_name_that_the_later_pass_does_not_read_carries_nothing(tmp_path: Path) -> None:
    assert "`net.level` carries" in seen(tmp_path, OUTPUT).found[0].finding.title


def test_a_function_that_never_ran_keeps_nothing(tmp_path: Path) -> None:
    causes = [x for x in seen(tmp_path, TWO_WAYS).found[0].finding.spans if x.role == "cause"]
    text = (HEAD + TWO_WAYS).splitlines()
    assert text[causes[0].line - 1].strip() == "self.slopes.append(slope)"
    assert all(text[x.line - 2].strip() != "def first_order(self, x, slope):" for x in causes)
    assert text[causes[0].line - 2].strip() == "def second_order(self, x, slope):"
