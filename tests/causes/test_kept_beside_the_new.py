"""A cache that a forward reads beside what it makes anew is told by its own name, and cut where it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.qkv = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 12)
        self.cache = None

    def forward(self, x):
        q, k, v = {made}
        if self.cache is not None:
            k = torch.cat([self.cache[0], k], 1)
            v = torch.cat([self.cache[1], v], 1)
        self.cache = (k, v)
        return torch.softmax(q @ k.transpose(1, 2), -1) @ v


att, out = Attention(), nn.Linear(4, 1)
opt = torch.optim.SGD([*att.parameters(), *out.parameters()], lr=0.1)
for _ in range(3):
    loss = out(att(torch.randn(2, 3, 4))).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("done")
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("made", ["self.q(x), self.k(x), self.v(x)", "self.qkv(x).chunk(3, -1)"])
def test_a_cache_of_keys_and_values(made: str, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", PROGRAM.format(made=made))
    assert seen.slugs == ["carried-state"]
    assert "`self.cache` carries the last iteration's graph into this one" in seen.said
    assert "`q`" not in seen.said
    texts = [t["train.py"] for _, t in seen.patches() if "self.cache[0].detach(), k" in t["train.py"]]
    assert texts and "self.cache[1].detach(), v" in texts[0]
    assert observe(tmp_path / "again", texts[0]).result.stdout == "done\n"


def test_the_output_that_is_taken_gives_the_name(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn

torch.manual_seed(0)
net, kept = nn.Linear(3, 4), None
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    mean, spread = net(torch.randn(5, 3)).chunk(2, dim=1)
    drift = 0.0 if kept is None else (spread - kept).pow(2).mean()
    kept = spread
    loss = mean.pow(2).mean() + drift
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    seen = observe(tmp_path, code)
    assert "`mean`" not in seen.said
    assert "`kept`" in seen.said
