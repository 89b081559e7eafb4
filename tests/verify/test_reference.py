"""The reference of a trial gives the gradients of the program as it is written, whatever is written into."""

from __future__ import annotations

import json

import pytest
from commands import graphdoc
from tracing import traced

START = "import torch\ntorch.manual_seed(3)\nx = torch.randn(5, 2, requires_grad=True)\n"
TANH = "1 - torch.tanh(x.detach()) ** 2"

WRITES = [
    ("y = torch.tanh(x)\ny.add_(1)\n", TANH),
    ("y = torch.tanh(x)\ny[2:].add_(1)\n", TANH),
    ("y = torch.tanh(x)\ny[:, 1] += 1\n", TANH),
    ("y = torch.tanh(x)\ny.T[1].mul_(1)\n", TANH),
    ("y = torch.tanh(x)\nfor i in range(1, 5):\n    y[i] = y[i] + 1\n", TANH),
]


@pytest.mark.breadth(2)
@pytest.mark.parametrize(("source", "wanted"), WRITES)
def test_what_was_saved_is_found_whole(tmp_path, source, wanted):
    end = f"y.sum().backward()\nprint(torch.allclose(x.grad, {wanted}))\n"
    ran = traced(tmp_path, START + source + end, "verify:reference:-1")
    assert ran.result.stdout == "True\n", ran.result.stderr


def test_a_later_tensor_does_not_get_the_copy_of_an_earlier_one(tmp_path):
    source = """\
    import torch
    x = torch.randn(5, 1, requires_grad=True)
    wrong = 0
    for _ in range(50):
        loss, wanted, x.grad = 0.0, 0.0, None
        for k in range(6):
            y = torch.tanh(x * (k + 1))
            y[2:].add_(1)
            loss = loss + y.sum()
            wanted = wanted + (k + 1) * (1 - torch.tanh(x.detach() * (k + 1)) ** 2)
            del y
        loss.backward()
        wrong += not torch.allclose(x.grad, wanted)
    print(wrong)
    """
    ran = traced(tmp_path, source, "verify:reference:-1")
    assert ran.result.stdout == "0\n", ran.result.stderr


CHECKPOINTED = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4), nn.Dropout(0.5))
x = torch.randn(3, 4)
torch.manual_seed(1)
out = {call}
loss = out.square().mean()
loss.backward()
print([round(p.grad.abs().sum().item(), 5) for p in net.parameters()])
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "call", ["checkpoint(net, x, use_reentrant=True)", "checkpoint_sequential(net, 2, x, use_reentrant=True)"]
)
def test_a_reentrant_checkpoint_is_the_call_that_it_stands_for(tmp_path, call):
    plain = traced(tmp_path / "plain", CHECKPOINTED.format(call="net(x)"), "verify:-1")
    cut = traced(tmp_path / "cut", CHECKPOINTED.format(call=call), "verify:reference:-1")
    assert cut.result.status == 1, "a checkpoint on data alone cuts its block off"
    ran = traced(tmp_path / "straight", CHECKPOINTED.format(call=call), "verify:reference:straight:-1")
    assert ran.result.stdout == plain.result.stdout != "", ran.result.stderr


GROWS = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
net, seen, x = nn.Linear(4, 4), [], torch.randn(3, 4)


def block(rows):
    seen.append(rows)
    return net(torch.cat(seen)).tanh()


{call}.square().mean().backward()
print([round(p.grad.abs().sum().item(), 5) for p in net.parameters()])
"""


def test_a_checkpoint_that_computes_something_else_again_is_run_once(tmp_path):
    plain = traced(tmp_path / "plain", GROWS.format(call="block(x)"), "verify:-1")
    call = "checkpoint(block, x, use_reentrant=False)"
    assert traced(tmp_path / "again", GROWS.format(call=call), "verify:reference:-1").result.status == 1
    ran = traced(tmp_path / "straight", GROWS.format(call=call), "verify:reference:straight:-1")
    assert ran.result.stdout == plain.result.stdout != "", ran.result.stderr


TRAINED = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(4):
    loss = checkpoint(net, torch.randn(3, 4), use_reentrant=True).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_the_other_form_of_a_checkpoint_is_verified(tmp_path):
    (tmp_path / "train.py").write_text(TRAINED)
    assert graphdoc(tmp_path, "run", "train.py", forked=True).returncode == 1
    graphdoc(tmp_path, "fix", "--diff", "--report", "json:report.json")
    best = json.loads((tmp_path / "report.json").read_text())["diagnoses"][0]["fixes"][0]
    assert "use_reentrant=False" in best["diff"]
    assert (best["safety"], best["verified"]) == ("safe", True), best["verification"]
    assert "gradients equal the reference" in best["verification"]["summary"]
