"""Whether a carried value is to go on from the iteration before or to begin anew is left to the user where each only
adds to it what the trained parameters give: both train by the gradients of their losses, and train otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
codes = torch.randn(4, 3)
place = torch.zeros(4, 3)
for _ in range(3):
    place = {moved}
    loss = place.sub(1).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("moved", "adds_up"),
    [
        ("place + net(codes)", True),
        ("place - net(codes)", True),
        ("place + net(place)", False),
        ("0.9 * place + net(codes)", False),
    ],
)
def test_sums_of_what_is_trained(moved: str, adds_up: bool, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", PROGRAM.format(moved=moved))
    assert seen.slugs == ["carried-state"]
    remedies = seen.found[0].finding.remedies
    assert {bool(r.open) for r in remedies} == {adds_up}
    assert [r.kind for r in remedies][: 1 + adds_up] == [*(["move_into_loop"] if adds_up else []), "detach_after"]


STATEFUL = """\
import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 1)
        self.state = None

    {forget}

    def forward(self, x):
        y, self.state = self.rnn(x, self.state)
        return self.out(y[:, -1])


net = Tagger()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(5, 7, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("forget", "anew"),
    [
        ("", "net.state = None"),
        ("def forget(self):\n        self.state = None", "net.forget()"),  # nobody calls it: it may have been forgotten
        ("def is_warm(self):\n        return self.state is not None", ""),
    ],
)
def test_a_state_that_begins_as_none(forget: str, anew: str, tmp_path: Path) -> None:
    remedies = observe(tmp_path / "sick", STATEFUL.format(forget=forget)).found[0].finding.remedies
    assert {bool(r.open) for r in remedies} == {bool(anew)}
    assert [r.args["statement"] for r in remedies if r.kind == "add_statement"] == [anew] * bool(anew)
