"""Two losses of a pass, and what the first one's call has given is cleared before a step: it was read, or is lost."""

from __future__ import annotations

from pathlib import Path

from seen import observe

CODE = """\
import torch
from torch import nn
torch.manual_seed(0)
body, one, two = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*body.parameters(), *one.parameters(), *two.parameters()], 0.1)
for _ in range(3):
    h = body(torch.randn(5, 3)).tanh()
    first, second = one(h).square().mean(), two(h).square().mean()
    optimizer.zero_grad()
    first.backward()
    {between}
    second.backward()
    optimizer.step()
"""
READ = "kept = [p.grad.clone() for p in body.parameters()]\n    optimizer.zero_grad()"


def test_what_is_cleared_is_not_added(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", CODE.format(between=READ))
    assert seen.slugs[0] == "shared-subgraph-losses" and seen.found[0].finding.confidence == "likely"
    assert "cleared before a step could use it" in seen.found[0].finding.explanation
    assert "Both are meant" not in seen.found[0].finding.explanation
    kind, files = seen.patches()[0]
    assert kind == "set_keyword" and "first.backward(retain_graph=True)" in files["train.py"]
    assert "whether it was read" in seen.found[0].finding.remedies[0].open
    assert observe(tmp_path / "mended", files["train.py"]).mended


def test_what_stays_is_added(tmp_path: Path) -> None:
    seen = observe(tmp_path, CODE.format(between="pass"))
    assert seen.patches()[0][0] == "merge_backward"
