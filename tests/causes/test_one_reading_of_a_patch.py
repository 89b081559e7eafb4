"""Patches that run, and would be another program than was meant: what stands first, or is open, instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
"""

DIVERGENCE = """
student, teacher = nn.Linear(4, 3), nn.Linear(4, 3)
x = torch.randn(8, 4)
target = F.log_softmax(teacher(x), dim=1).detach()
loss = F.kl_div(F.log_softmax(student(x), dim=1), target, reduction="batchmean")
with torch.autograd.detect_anomaly():
    (loss * torch.ones((), requires_grad=True)).backward()
    assert loss.isfinite()
"""

EXPONENTIALS = """
net = nn.Linear(4, 3)
energy = net(torch.randn(8, 4) * 100) ** 2 * 30
loss = -torch.log(torch.exp(-energy).sum(1)).mean()
with torch.autograd.detect_anomaly():
    loss.backward()
"""

KEPT_BY_AN_EVALUATION = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data, kept = [torch.randn(5, 3) for _ in range(3)], {}


def score(i):
    if i not in kept:
        kept[i] = net(data[i])
    return kept[i]


for i in range(2):
    loss = score(i).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        print(score(i + 1).mean().item())
"""

CLEARED_BEFORE_BOTH = """
encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
of_encoder = torch.optim.SGD(encoder.parameters(), lr=0.1)
of_head = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(2):
    of_encoder.zero_grad()
    of_head.zero_grad()
    code = torch.tanh(encoder(torch.randn(5, 3)))
    fit = head(code).square().mean()
    fit.backward()
    of_head.step()
    size = code.mean(0).square().sum()
    size.backward()
    of_encoder.step()
"""

FROZEN_BETWEEN = """
encoder, a, b = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 1), nn.Linear(4, 2)
opt = torch.optim.SGD([*encoder.parameters(), *a.parameters(), *b.parameters()], lr=0.1)
for _ in range(2):
    code = encoder(torch.randn(5, 3))
    opt.zero_grad()
    a(code).square().mean().backward()
    encoder.requires_grad_(False)
    b(code).square().mean().backward()
    opt.step()
    encoder.requires_grad_(True)
"""

READ_AS_A_NUMBER = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(2):
    if i % 2:
        loss = net(torch.randn(5, 3)).abs().squeeze(1)
    else:
        loss = net(torch.randn(5, 3)).square().squeeze(1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""


@pytest.mark.parametrize(
    ("program", "first"),
    [
        pytest.param(DIVERGENCE, 'reduction="batchmean", log_target=True)', id="a target of logarithms is not bounded"),
        pytest.param(EXPONENTIALS, "torch.logsumexp(-energy, dim=1)", id="what underflows is trained all the same"),
        pytest.param(FROZEN_BETWEEN, "b(code.detach())", id="a frozen encoder learns from no merged loss"),
        pytest.param(READ_AS_A_NUMBER, "    loss = loss.mean()\n    loss.backward()", id="the mean, also for item()"),
    ],
)
def test_the_first_patch_is_what_the_program_asks_for(tmp_path: Path, program: str, first: str):
    patches = observe(tmp_path, HEAD + program).patches()
    assert patches and first in next(iter(patches[0][1].values())), patches


def test_an_evaluation_stays_unrecorded(tmp_path: Path):
    seen = observe(tmp_path, HEAD + KEPT_BY_AN_EVALUATION)
    assert seen.slugs == ["cut-by-no-grad"] and "in an earlier round" in seen.said
    assert [r.safety for r in seen.found[0].finding.remedies] == ["display"]


def test_an_optimizer_cleared_before_both_losses_may_be_for_both(tmp_path: Path):
    seen = observe(tmp_path, HEAD + CLEARED_BEFORE_BOTH)
    assert seen.slugs == ["undetached-target"] and seen.found[0].finding.confidence == "likely"
    assert all("whether it is to step with both, no run tells" in r.open for r in seen.found[0].finding.remedies)


IN_VAIN = """
a, b = nn.Linear(3, 4), nn.Linear(4, 1)
of_a, of_b = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)
for _ in range(9):
    loss = b(torch.tanh(a(torch.randn(5, 3)))).square().mean()
{}
"""


@pytest.mark.parametrize(
    "steps",
    ["    of_a.step()\n    of_b.step()", "    for opt in (of_a, of_b):\n        opt.step()"],
    ids=["one behind the other", "in a loop"],
)
def test_one_loss_of_two_optimizers_is_differentiated_once(tmp_path: Path, steps: str):
    seen = observe(tmp_path, HEAD + IN_VAIN.format(steps))
    assert seen.slugs == ["steps-without-gradient"]
    ((_, texts),) = seen.patches()
    assert next(iter(texts.values())).count(f"    loss.backward()\n{steps}") == 1, texts
    assert next(iter(texts.values())).count("loss.backward()") == 1, texts


SAVED_BESIDE = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
saved = {}
saved["params"] = net.state_dict()
opt.param_groups[0].update(params=net.parameters())
for _ in range(6):
    loss = net(torch.randn(5, 3)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_only_iterators_are_put_into_a_list(tmp_path: Path):
    seen = observe(tmp_path, HEAD + SAVED_BESIDE)
    assert seen.slugs == ["parameters-never-reached"]
    assert seen.lines("cause") == ["opt.param_groups[0].update(params=net.parameters())"]
    ((_, texts),) = seen.patches()
    assert 'saved["params"] = net.state_dict()' in next(iter(texts.values())), texts


COUNTED = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data, seen = [torch.randn(4, 3) for _ in range(40)], 0
for i, x in enumerate(data):
    {before}
    net(x).square().mean().backward()
    seen += len(x)
    if seen >= 12 or i == len(data) - 1:
        opt.step()
        seen = 0
        {behind}
"""


@pytest.mark.parametrize("cleared", ["before", "behind"])
def test_a_count_or_the_end_of_the_data_ends_what_adds_up(tmp_path: Path, cleared: str):
    places = {"before": "", "behind": "", cleared: "opt.zero_grad()"}
    seen = observe(tmp_path, HEAD + COUNTED.format(**places))
    assert seen.slugs == (["cleared-before-step"] if cleared == "before" else [])


LISTED = """
params = [torch.randn(3), torch.zeros(1)]
opt = torch.optim.SGD(params, lr=0.1)
(torch.randn(5, 3) @ params[0] + params[1]).square().mean().backward()
opt.step()
"""

UPDATED_IN_A_LOOP = """
w = torch.randn(3)
b = torch.zeros(1)
x = torch.randn(5, 3)
(x @ w + b).square().mean().backward()
for p in [w, b]:
    p.data -= 0.1 * p.grad
"""

GIVEN_TO_A_FUNCTION = """
def train(weight, x):
    (x @ weight).square().mean().backward()
    weight.data -= 0.1 * weight.grad


w = torch.randn(3)
train(w, torch.randn(5, 3))
"""


@pytest.mark.parametrize(
    ("program", "whose", "flagged"),
    [
        pytest.param(LISTED, "tensors of the list are given to an optimizer", 2, id="elements of a list"),
        pytest.param(UPDATED_IN_A_LOOP, "the gradient of `w` and `b` is read", 2, id="names in a loop"),
        pytest.param(GIVEN_TO_A_FUNCTION, "the gradient of `w` is read", 1, id="an argument"),
    ],
)
def test_tensors_that_are_to_learn_get_the_flag(tmp_path: Path, program: str, whose: str, flagged: int):
    seen = observe(tmp_path, HEAD + program)
    assert seen.slugs == ["input-needs-grad"] and whose in seen.said
    text = next(iter(seen.patches()[0][1].values()))
    assert text.count("requires_grad") == flagged, text
