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


@pytest.mark.breadth(1)
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


MASKED = """
class Unit(nn.Module):
    def __init__(self, edges):
        super().__init__()
        self.edges = MADE
        self.mask, self.fc = nn.Parameter(torch.ones(3, 5, 5)), nn.Linear(5, 5)
    def forward(self, x):
        edges = self.edges
        edges WRITTEN
        return torch.relu(self.fc(x @ edges).sum(0))


net = nn.Sequential(Unit(torch.rand(3, 5, 5)), Unit(torch.rand(3, 5, 5)))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.rand(4, 5)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("made", ["edges.clone()", "edges.clone().view(-1, 5, 5)"], ids=["whole", "view"])
def test_data_that_a_pass_writes_into_under_another_name_are_copied(tmp_path: Path, made: str) -> None:
    """Of a write through a view (``CopySlices``) Python cannot see that an earlier call has released it."""
    found = seen(tmp_path, MASKED.replace("MADE", made).replace("WRITTEN", "*= self.mask"))
    assert found.slugs[0] == "carried-state" and found.found[0].finding.confidence == "certain"
    assert found.lines("cause")[0] == "edges = self.edges"
    assert "another name of data that outlive this pass" in found.said
    first = found.found[0].finding.remedies[0]
    assert first.title == "take a copy of the data, at train.py:11"
    assert first.open == "whether the data are to keep what a pass writes into them, no run tells"


def test_a_state_that_takes_up_what_a_pass_is_given_goes_on(tmp_path: Path) -> None:
    code = MASKED.replace("MADE", "edges.clone()").replace("WRITTEN", "+= self.mask * x.mean()")
    found = seen(tmp_path, code)
    assert found.slugs[0] == "carried-state"
    assert not any("copy" in r.title for r in found.found[0].finding.remedies)


FED_BACK = """
class Cell(nn.Module):
    def __init__(self, *size):
        super().__init__()
        self.cell, self.state = nn.GRUCell(*size), torch.zeros(2, size[1])
    def forward(self, x):
        BODY


net = nn.Sequential(Cell(3, 4), Cell(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for t in range(4):
    if t < 1:
        out = net(torch.rand(2, 3))
    else:
        out = net(torch.rand(2, 3))
    opt.zero_grad()
    out.pow(2).mean().backward()
    opt.step()
"""


def test_a_state_that_one_line_feeds_back_is_carried_wherever_it_was_called_from(tmp_path: Path) -> None:
    body = "self.state = self.cell(x, self.state)\n        return self.state"
    found = seen(tmp_path, FED_BACK.replace("BODY", body))
    assert found.slugs[0] == "carried-state"
    assert "computed once" not in found.said
    first = found.found[0].finding.remedies[0]
    assert first.title == "detach `self.state` where train.py:10 takes it up again"


@pytest.mark.breadth(1)
@pytest.mark.parametrize("inner", ["h", "(h if h is None else h + 0)"])
def test_a_state_of_which_the_first_pass_was_written_apart_is_carried(tmp_path: Path, inner: str) -> None:
    code = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4)
    def forward(self, x, h=None):
        h = {inner}
        out, h = self.rnn(x, h)
        return out, h * 1


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for t in range(4):
    x = torch.rand(5, 2, 3)
    if t == 0:
        out, state = net(x)
    else:
        out, state = net(x, state)
    opt.zero_grad()
    out.pow(2).mean().backward()
    opt.step()
"""
    found = seen(tmp_path, code)
    assert found.slugs[0] == "carried-state"
    assert any("after the optimizer step" in r.title for r in found.found[0].finding.remedies)


def test_features_that_were_computed_before_the_loop_are_told_as_that(tmp_path: Path) -> None:
    code = """
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
start = net(torch.rand(2, 3))
for t in range(4):
    out = net(start)
    opt.zero_grad()
    out.pow(2).mean().backward()
    opt.step()
"""
    assert seen(tmp_path, code).slugs[0] == "graph-built-once"


def test_a_state_that_is_cut_where_it_is_read_is_not_fed_back(tmp_path: Path) -> None:
    code = FED_BACK.replace("BODY", "self.state = self.cell(x, self.state.detach())\n        return self.state")
    assert seen(tmp_path, code).result.status == 0
