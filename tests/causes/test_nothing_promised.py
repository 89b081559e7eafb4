"""No more is said than was seen: of values that came in past autograd, and of what a patch does before it is tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import Seen, observe

HEAD = """import io, pickle
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(3, 4)
"""


def said(seen: Seen) -> str:
    """What is told and what is offered."""
    return " ".join((seen.said, *(text for r in seen.found[0].finding.remedies for text in (r.title, r.note))))


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "loss",
    [
        "with torch.no_grad():\n    kept = pickle.dumps(net(x))\nloss = (pickle.loads(kept) - 1).pow(2).mean()",
        "@torch.jit.script\ndef of(x, w):\n    return (x @ w.t()).detach()\nloss = of(x, net.weight).mean()",
        "with torch.no_grad():\n    kept = net(x).mean().item() * 2\nloss = torch.tensor(kept).pow(2)",
    ],
    ids=["pickle", "script", "number"],
)
def test_a_loss_of_values_whose_making_was_not_seen_is_not_called_a_constant(tmp_path: Path, loss: str) -> None:
    seen = observe(tmp_path, f"{HEAD}{loss}\nloss.backward()\n")
    assert seen.slugs[0] == "constant-loss"
    assert seen.found[0].finding.confidence == "likely"
    assert "from constants alone" not in said(seen) and "no term of it" not in said(seen)


def test_a_loss_of_zeros_is_certainly_a_constant(tmp_path: Path) -> None:
    seen = observe(tmp_path, f"{HEAD}loss = torch.zeros(3).sum() / 4\nloss.backward()\n")
    assert (seen.slugs[0], seen.found[0].finding.confidence) == ("constant-loss", "certain")


def test_what_went_through_a_file_is_not_promised_a_gradient(tmp_path: Path) -> None:
    saved = "to = io.BytesIO()\ntorch.save(net(x).detach(), to)\nto.seek(0)\nloss = torch.load(to).sum()\n"
    seen = observe(tmp_path, f"{HEAD}{saved}loss.backward()\n")
    # The detach was not seen on its way to the loss, nor a number or an array made of it.
    assert (seen.slugs[0], seen.found[0].finding.confidence) == ("constant-loss", "likely")
    assert "past autograd, as from a file" in said(seen)


def test_what_an_array_wrote_did_not_come_with_the_data(tmp_path: Path) -> None:
    written = "    given = x.numpy()\n    given[:] = np.log(given * 0 - 1)\n"
    step = "    loss = net(x).pow(2).mean()\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    loop = f"for i in range(3):\n    x = torch.randn(3, 4)\n{written}{step}"
    seen = observe(tmp_path, f"{HEAD}{loop}")
    assert seen.slugs[0] == "nan-input-data"
    assert seen.found[0].finding.confidence == "likely"
    assert "from the data" not in said(seen) and "came in with" not in said(seen)


def test_a_step_is_not_called_unbounded_where_gradients_are_clipped(tmp_path: Path) -> None:
    layers = ", ".join(f"nn.Linear({a}, {b}, bias=False)" for a, b in ((8, 32), (32, 32), (32, 32), (32, 32), (32, 1)))
    code = f"""net = nn.Sequential({layers})
optimizer = torch.optim.SGD(net.parameters(), lr=1e6)
for step in range(9):
    x = torch.randn(16, 8)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "exploding-gradients"
    assert "bound" not in said(seen) and "not limited" not in said(seen)
    assert not seen.found[0].finding.remedies


def test_a_forward_behind_the_step_is_not_said_to_reach_what_it_did(tmp_path: Path) -> None:
    code = """
a, b = nn.Linear(4, 1), nn.Linear(4, 1)
one, two = (torch.optim.SGD([*net.parameters(), *m.parameters()], lr=0.1) for m in (a, b))
a, b = nn.Linear(2, 1), nn.Linear(2, 1)
for i in range(3):
    h = torch.tanh(net(x))
    first, second = a(h).pow(2).mean(), b(net(h[:, :1].expand(3, 4))).pow(2).mean()
    first.backward(retain_graph=True)
    one.step()
    second.backward()
    two.step()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs
    assert "still does" not in said(seen) and "Nothing needs" not in said(seen)
