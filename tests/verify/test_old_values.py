"""A step is given the gradient of the weights that it steps from: what belongs to older ones is measured."""

from __future__ import annotations

import pytest
from tracing import Sick, traced

from graphdoc.fixes.kinds import Traits

FIT = """\
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.linspace(-1, 1, 20).unsqueeze(1)
y = torch.sin(3 * x)
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4)
for _ in range(4):
    guess = net(x)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(guess, y)
        loss.backward(retain_graph=True)
        return loss

    optimizer.step(closure)
"""
CLONED = "functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, (x,))"
INSIDE = (
    ("    guess = net(x)\n\n", ""),
    ("        optimizer.zero_grad()\n", "        guess = net(x)\n        optimizer.zero_grad()\n"),
)


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    return Sick(tmp_path_factory.mktemp("fit"), FIT)


def test_a_closure_that_walks_one_graph_has_the_gradient_of_old_values(fit):
    verdict = fit.judge(fit.edited(("net(x)", CLONED)))
    assert verdict.verified is False
    assert "still goes through the graph of an earlier iteration" in verdict.summary


def test_a_closure_that_makes_its_graph_has_that_of_now(fit):
    assert fit.judge(fit.edited(*INSIDE)).verified is True


TWO_LOSSES = """\
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(16, 3)
    out = net(x)
    for column in (0, 1):
        loss = (out[:, column] - x.sum(1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
"""


@pytest.fixture(scope="module")
def two_losses(tmp_path_factory):
    return Sick(tmp_path_factory.mktemp("two_losses"), TWO_LOSSES)


@pytest.mark.slow
def test_a_second_step_by_the_graph_of_the_first_is_doubted(two_losses):
    verdict = two_losses.judge(two_losses.edited(("net(x)", CLONED)))
    assert verdict.verified is not True


def test_a_forward_for_each_step_is_not(two_losses):
    anew = ("        loss =", "        out = net(x)\n        loss =")
    assert two_losses.judge(two_losses.edited(("    out = net(x)\n", ""), anew)).verified is True


IN_TURN = """\
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(16, 3)
    out = net(x)
    optimizer.zero_grad()
    net(x + 1).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    (out.sum(1) - x.sum(1)).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_loss_of_before_the_step_is_doubted(tmp_path):
    sick = Sick(tmp_path, IN_TURN)
    verdict = sick.judge(sick.edited(("net(x)\n", CLONED + "\n")))
    assert verdict.verified is None
    assert "`net.*` (4 parameters) the gradient of values that a step has changed" in verdict.summary


def test_a_view_of_the_weights_that_was_made_once_has_their_values_of_now(tmp_path):
    program = """\
    import torch

    weight = torch.ones(3, 2, requires_grad=True)
    turned = weight.t()
    copied = weight.clone()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for made in (turned, turned, copied.t()):
        (torch.ones(1, 2) @ made).sum().backward()
        optimizer.step()
    """
    assert [c.stale for c in traced(tmp_path, program, "verify:-1").trace.backwards] == [[], [], ["0.0"]]


INNER = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    x = torch.randn(16, 3)
    support = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    w = [p - 0.3 * g for p, g in zip(net.parameters(), torch.autograd.grad(support, net.parameters()))]
    query = (torch.tanh(x @ w[0].t() + w[1]) @ w[2].t() + w[3] - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    (query + support).backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_the_order_of_differentiation_is_the_authors(tmp_path):
    sick = Sick(tmp_path, INNER)
    asked = "autograd.grad(support, net.parameters()"
    second = sick.judge(sick.edited((asked, f"{asked}, create_graph=True")))
    assert second.verified is None and "other gradients to `net.*`" in second.summary, second.summary
    assert sick.judge(sick.edited((asked, f"{asked}, retain_graph=True"))).verified is True


FORCE = """\
import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-2)
for _ in range(4):
    x = torch.randn(16, 3).requires_grad_()
    height = energy(x)
    force = torch.autograd.grad(height.sum(), x)[0]
    optimizer.zero_grad()
    ((force - x).square().mean() + height.square().mean()).backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_graph_for_a_gradient_lets_the_same_loss_train_by_more(tmp_path):
    sick = Sick(tmp_path, FORCE)
    asked = "autograd.grad(height.sum(), x"
    patched = sick.edited((asked, f"{asked}, create_graph=True"))
    assert sick.judge(patched, traits=Traits(only_records=True)).verified is True
    told = sick.judge(patched)
    assert told.verified is None and "the same value and gives other gradients" in told.summary
