"""A Function's backward that differentiates what it computes itself, where nothing is recorded."""

from __future__ import annotations

from pathlib import Path

from seen import observe

ADJOINT = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), 0.1)


class Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *weights):
        ctx.save_for_backward(x)
        with torch.no_grad():
            return x + 0.1 * net(x)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        x = x.detach().requires_grad_()
        step = x + 0.1 * net(x)
        gx, *gw = torch.autograd.grad(step, (x, *net.parameters()), grad)
        return (gx, *gw)


for _ in range(3):
    loss = Solve.apply(torch.randn(4, 3, requires_grad=True), *net.parameters()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_backward_computes_is_recorded_there(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", ADJOINT)
    assert seen.slugs[0] == "cut-by-no-grad" and seen.found[0].finding.confidence == "certain"
    assert "step = x + 0.1 * net(x)" in seen.lines("cause")
    kind, files = seen.patches()[0]
    assert kind == "enable_grad_block" and "with torch.enable_grad():" in files["train.py"]
    assert observe(tmp_path / "mended", files["train.py"]).mended


def test_with_create_graph_it_is_recorded_anyway(tmp_path: Path) -> None:
    assert observe(tmp_path, ADJOINT.replace("loss.backward()", "loss.backward(create_graph=True)")).mended
