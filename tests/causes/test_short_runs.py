"""Runs of a few steps: a fault that each of them shows is told when the run is over, and nothing is told of the many
short programs that are meant as they are: smoke tests, demonstrations, the first steps of a program for thousands."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """
import copy
import torch
from torch import nn
torch.manual_seed(0)
net, other = nn.Linear(4, 1), nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
of_other = torch.optim.SGD(other.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randn(8, 1)

def loss(module=net):
    return (module(torch.randn(8, 4)) - 1).square().mean()
"""

SICK = {
    "never cleared": ("for _ in range(3): loss().backward(); opt.step()", "zero-grad-missing"),
    "cleared behind backward": (
        "for _ in range(2): loss().backward(); opt.zero_grad(); opt.step()",
        "cleared-before-step",
    ),
    "stepped before backward": (
        "for _ in range(3): opt.zero_grad(); opt.step(); loss().backward()",
        "cleared-before-step",
    ),
    "never stepped": ("for _ in range(3): opt.zero_grad(); loss().backward()", "step-missing"),
    "one of two never stepped": (
        """
for _ in range(3):
    opt.zero_grad(); loss().backward(); opt.step()
    of_other.zero_grad(); loss(other).backward()
""",
        "step-missing",
    ),
    "the optimizer of another network": (
        "for _ in range(3): of_other.zero_grad(); loss().backward(); of_other.step()",
        "steps-without-gradient",
    ),
}

HEALTHY = {
    "two steps": "for _ in range(2): opt.zero_grad(); loss().backward(); opt.step()",
    "cleared last": "for _ in range(3): loss().backward(); opt.step(); opt.zero_grad()",
    "two steps of which nothing was cleared": "for _ in range(2): loss().backward(); opt.step()",
    "one step by three calls": "for _ in range(3): loss().backward()\nopt.step()",
    "tests, each with an optimizer of its own": """
def check(module):
    own = torch.optim.Adam(module.parameters())
    for _ in range(3):
        module(x).square().mean().backward()
        own.step()
for module in (nn.Linear(4, 1), nn.Linear(4, 2)): check(module)
""",
    "groups with a rest": """
for i in range(11):
    (loss() / 4).backward()
    if i % 4 == 3: opt.step(); opt.zero_grad()
""",
    "a rest that each epoch throws away": """
for epoch in range(2):
    opt.zero_grad()
    for i in range(3):
        (loss() / 2).backward()
        if i % 2 == 1: opt.step(); opt.zero_grad()
""",
    "one closure": """
opt = torch.optim.LBFGS(net.parameters(), max_iter=5)
def closure():
    opt.zero_grad()
    value = (net(x) - y).square().mean()
    value.backward()
    return value
opt.step(closure); closure()
""",
    "a term that begins later": """
for step in range(4):
    opt.zero_grad(); of_other.zero_grad()
    value = loss()
    if step >= 100: value = value + loss(other)
    value.backward()
    opt.step(); of_other.step()
""",
    "a generator that waits": """
for i in range(4):
    opt.zero_grad(); loss().backward(); opt.step()
    of_other.zero_grad()
    loss(other).backward()
    if (i + 1) % 5 == 0: of_other.step()
""",
    "a scheduler that is tried": """
rates = torch.optim.lr_scheduler.StepLR(opt, 2)
for _ in range(4): loss(); opt.step(); rates.step()
""",
    "evaluation": "with torch.no_grad():\n    for _ in range(4): print(float(loss()))",
    "norms of gradients": """
for _ in range(3):
    opt.zero_grad()
    loss().backward()
    print(sum(p.grad.norm() for p in net.parameters()))
""",
    "a norm that is measured": """
for _ in range(4):
    opt.zero_grad()
    loss().backward()
    print(nn.utils.clip_grad_norm_(net.parameters(), 1e9))
""",
    "gradients that a parameter's hook takes": """
norms = []
for p in net.parameters(): p.register_hook(lambda g: norms.append(float(g.norm())))
for _ in range(6): opt.zero_grad(); loss().backward()
""",
    "gradients that a module's hook takes": """
norms = []
net.register_full_backward_hook(lambda module, into, out: norms.append(float(out[0].norm())))
for _ in range(6): opt.zero_grad(); loss().backward()
""",
    "an optimizer that needs no gradient, beside a backward call": """
class Search(torch.optim.Optimizer):
    def step(self):
        with torch.no_grad(): before = loss(); old = net.weight.clone(); net.weight += torch.randn_like(old)
        with torch.no_grad(): net.weight.copy_(net.weight if loss() < before else old - 0.01 * old.sign())
search = Search(net.parameters(), {})
middle = torch.zeros(1, requires_grad=True)
for _ in range(8):
    (middle - y).square().mean().backward()
    with torch.no_grad(): middle -= 0.1 * middle.grad
    middle.grad = None
    search.step()
""",
    "gradients that are shown": "for _ in range(3): loss().backward(); print(net.weight.grad); opt.zero_grad()",
    "what an input changes": """
for _ in range(3):
    image = torch.randn(1, 4, requires_grad=True)
    net(image).sum().backward()
    print(image.grad)
    opt.zero_grad()
""",
    "an end before the step": """
for step in range(100):
    opt.zero_grad()
    loss().backward()
    if step == 2: break
    opt.step()
""",
    "one constant gradient": "net(x).sum().backward()\nfor _ in range(4): opt.step()",
    "gradients of the program's own": """
for _ in range(3):
    for p in net.parameters(): p.grad = torch.randn_like(p)
    opt.step()
""",
    "a step within each backward": """
own = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}
def step(p): own[p].step(); own[p].zero_grad()
for p in net.parameters(): p.register_post_accumulate_grad_hook(step)
for _ in range(3): loss().backward()
""",
    "sharpness": """
for _ in range(3):
    loss().backward()
    moves = [0.05 * p.grad / p.grad.norm() for p in net.parameters()]
    with torch.no_grad():
        for p, m in zip(net.parameters(), moves): p.add_(m)
    opt.zero_grad()
    loss().backward()
    with torch.no_grad():
        for p, m in zip(net.parameters(), moves): p.sub_(m)
    opt.step(); opt.zero_grad()
""",
    "clients": """
for _ in range(2):
    states = []
    for _ in range(2):
        client = copy.deepcopy(net)
        own = torch.optim.SGD(client.parameters(), lr=0.1)
        for _ in range(2): own.zero_grad(); loss(client).backward(); own.step()
        states.append(client.state_dict())
    net.load_state_dict({k: (states[0][k] + states[1][k]) / 2 for k in states[0]})
""",
    "an end by an exception": """
for step in range(3):
    loss().backward()
    opt.step()
raise ValueError("no more data")
""",
    "a scaler": """
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    opt.zero_grad()
    scaler.scale(loss()).backward()
    scaler.step(opt); scaler.update()
""",
}


@pytest.mark.parametrize("name", SICK)
def test_what_each_of_a_few_steps_shows_is_likely(tmp_path: Path, name: str) -> None:
    code, slug = SICK[name]
    seen = observe(tmp_path, HEAD + code)
    assert [(f.cause.slug, f.finding.confidence) for f in seen.found] == [(slug, "likely")]


@pytest.mark.breadth(9)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_short_program_is_left_alone(tmp_path: Path, name: str) -> None:
    seen = observe(tmp_path, HEAD + HEALTHY[name])
    assert seen.slugs == []
    assert seen.result.status == ("raise" in HEALTHY[name])


@pytest.mark.parametrize("cleared", ["", "opt.zero_grad();", "net.zero_grad();"])
def test_two_calls_on_each_loss_are_proof_from_the_second_step_on(tmp_path: Path, cleared: str) -> None:
    """Also where the first step is the first that is seen of the optimizer; not where the first call is cleared."""
    calls = f"one = loss(); one.backward(retain_graph=True); {cleared} one.backward(); opt.step(); opt.zero_grad()"
    seen = observe(tmp_path, f"{HEAD}for _ in range(2): {calls}")
    told = [] if cleared else [("repeated-backward", "certain")]
    assert [(f.cause.slug, f.finding.confidence) for f in seen.found] == told


def test_the_names_of_losses_are_read_without_touching_the_programs_objects(tmp_path: Path) -> None:
    code = """
class Later:
    touched = 0
    @property
    def __class__(self): Later.touched += 1; return object
def train(lazy):
    for _ in range(6):
        value = loss()
        opt.step()
train(Later())
assert not Later.touched
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs == ["steps-without-gradient"]
    assert seen.result.status == 0
