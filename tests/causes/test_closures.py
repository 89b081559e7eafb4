"""What runs inside ``optimizer.step(closure)`` is the closure's deed, and what the optimizer itself does is its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
"""
IN_PLACE = (
    HEAD
    + """\
net, head = nn.Sequential(nn.Linear(3, 8), nn.Sigmoid()), nn.Linear(8, 1)
x, y = torch.randn(16, 3), torch.randn(16, 1)
OPTIMIZER


def closure():
    optimizer.zero_grad()
    h = net(x)
    h += 0.1
    loss = nn.functional.mse_loss(head(h), y)
    loss.backward()
    return loss


for _ in range(3):
    optimizer.step(closure)
"""
)
LBFGS = "optimizer = torch.optim.LBFGS([*net.parameters(), *head.parameters()], lr=0.5)"
OWN = """\
class Descent(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.update()
        return loss

    @torch.no_grad()
    def update(self):
        for p in self.param_groups[0]["params"]:
            p.add_(p.grad, alpha=-0.1)


optimizer = Descent([*net.parameters(), *head.parameters()])
"""
CARRIED = (
    HEAD
    + """\
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.LBFGS([*cell.parameters(), *head.parameters()], lr=0.5, max_iter=4)
state = torch.zeros(16, 8)


def fit(x, y, state):
    kept = []

    def closure():
        optimizer.zero_grad()
        new = cell(x, state)
        kept[:] = [new]
        loss = nn.functional.mse_loss(head(new), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    return kept[0]


for x, y in zip(torch.randn(4, 16, 3), torch.randn(4, 16, 1)):
    state = fit(x, y, state)
"""
)
CHUNK = (
    HEAD
    + """\
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.LBFGS([*cell.parameters(), *head.parameters()], lr=0.5, max_iter=4)
state = torch.zeros(16, 8)

for x, y in zip(torch.randn(4, 16, 3), torch.randn(4, 16, 1)):

    def closure():
        global new
        optimizer.zero_grad()
        new = cell(x, state)
        loss = nn.functional.mse_loss(head(new), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    state = new
"""
)
STEPPED = (
    HEAD
    + """\
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
OPTIMIZER
x = torch.randn(16, 3)
before = net(x)


def closure():
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    return loss


optimizer.step(closure)
before.pow(2).mean().backward()
"""
)


def spoken(told) -> str:
    finding = told.found[0].finding
    return "\n".join([finding.explanation, *finding.facts, *(s.label for s in finding.spans)])


def test_write_in_a_closure_is_the_closures(tmp_path: Path) -> None:
    told = observe(tmp_path, IN_PLACE.replace("OPTIMIZER", LBFGS))
    assert told.slugs[0] == "inplace-on-saved-activation"
    assert told.lines("cause") == ["h += 0.1"]
    assert "LBFGS" not in spoken(told) and "closure" not in spoken(told)
    assert ("out_of_place" in [kind for kind, _ in told.patches()][:1]) and "h saved" not in spoken(told)
    assert "h at version 1, 0 expected: +1 by an in-place write at train.py:13" in spoken(told)


@pytest.mark.breadth(2)
@pytest.mark.parametrize("name", ["Adam", "SGD", "AdamW", "RMSprop", "Adagrad"])
def test_write_in_a_closure_that_any_optimizer_calls(name: str, tmp_path: Path) -> None:
    told = observe(tmp_path, IN_PLACE.replace("OPTIMIZER", LBFGS.replace("LBFGS", name)))
    assert told.lines("cause") == ["h += 0.1"]
    assert ".step()" not in spoken(told)


def test_write_in_a_closure_that_a_users_own_optimizer_calls(tmp_path: Path) -> None:
    told = observe(tmp_path, IN_PLACE.replace("OPTIMIZER", OWN))
    assert told.slugs[0] == "inplace-on-saved-activation"
    assert told.lines("cause") == ["h += 0.1"]
    assert ".step()" not in spoken(told)


def test_step_of_a_users_own_optimizer_that_was_given_a_closure(tmp_path: Path) -> None:
    told = observe(tmp_path, STEPPED.replace("OPTIMIZER", OWN.replace("*head.parameters()", "")))
    assert told.slugs[0] == "optimizer-step-before-backward"
    assert "optimizer.step(closure)" in told.lines("cause")


def test_what_lbfgs_itself_writes_is_its_step(tmp_path: Path) -> None:
    told = observe(tmp_path, STEPPED.replace("OPTIMIZER", LBFGS.replace(", *head.parameters()", "")))
    assert told.slugs[0] == "optimizer-step-before-backward"
    assert "optimizer.step(closure)" in told.lines("cause")


def test_write_in_a_step_hook_is_the_hooks(tmp_path: Path) -> None:
    hooked = STEPPED.replace("OPTIMIZER", "optimizer = torch.optim.SGD(net.parameters(), lr=0.0)").replace(
        "\n\ndef closure",
        """

def clip(*_):
    with torch.no_grad():
        for p in net.parameters():
            p.clamp_(-0.1, 0.1)


optimizer.register_step_pre_hook(clip)


def closure""",
        1,
    )
    told = observe(tmp_path, hooked.replace("optimizer.step(closure)", "closure(), optimizer.step()"))
    assert told.slugs[0] == "parameter-overwritten"
    assert "p.clamp_(-0.1, 0.1)" in told.lines("cause")


def test_state_carried_from_one_closures_call_to_the_next_step(tmp_path: Path) -> None:
    """LBFGS calls a closure from several lines of its own: they are one place to the user."""
    told = observe(tmp_path, CHUNK)
    assert told.slugs[0] == "carried-state"
    assert "state = new" in told.lines("cause")
    assert told.found[0].finding.confidence == "certain"
    assert told.patches()


def test_state_carried_out_of_a_function_that_steps(tmp_path: Path) -> None:
    told = observe(tmp_path, CARRIED)
    assert told.slugs[0] == "carried-state"


OUTSIDE = (
    HEAD
    + """\
class Sharp(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            closure()
        away = [0.05 * p.grad for p in self.param_groups[0]["params"]]
        for p, a in zip(self.param_groups[0]["params"], away):
            p.add_(a)
        with torch.enable_grad():
            loss = closure()
        for p, a in zip(self.param_groups[0]["params"], away):
            p.sub_(a + 0.1 * p.grad)
        return loss


net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = Sharp(net.parameters())
for _ in range(3):
    x = torch.randn(16, 4)
    guess = net(x)

    def closure():
        optimizer.zero_grad()
        loss = (guess - x.sum(1, keepdim=True)).square().mean()
        loss.backward(retain_graph=True)
        return loss

    optimizer.step(closure)
"""
)


def test_a_forward_outside_of_a_closure_that_an_optimizer_of_ones_own_calls_twice(tmp_path: Path) -> None:
    told = observe(tmp_path, OUTSIDE)
    assert told.slugs[0] == "retain-graph-cover-up"
    assert "guess = net(x)" in told.lines("cause")
    assert [kind for kind, _ in told.patches()][:1] == ["several"]
    assert "clone_parameters" not in {kind for kind, _ in told.patches()}
