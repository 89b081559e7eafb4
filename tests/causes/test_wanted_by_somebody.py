"""Networks in no optimizer whose gradients somebody waits for, and those that are left alone or trained otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """
import copy
import torch
from torch import nn

torch.manual_seed(0)


def net(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.Tanh(), nn.Linear(h, o))


maker, near, wide = net(4, 8, 6), net(6, 8, 1), net(6, 5, 1)
making = torch.optim.Adam(maker.parameters(), 1e-3)
"""
LOOP = """
for step in range(14):
    real, made = torch.randn(8, 6), maker(torch.randn(8, 4))
"""
MADE = """
    making.zero_grad()
    (near(made) - 1).pow(2).mean().backward()
    making.step()
"""
JUDGED = "((near(real) - 1).pow(2).mean() + near(made.detach()).pow(2).mean()).backward()\n"
BOTH = """
    judging.zero_grad()
    sum((d(real) - 1).pow(2).mean() + d(made.detach()).pow(2).mean() for d in (near, wide)).backward()
"""
MIXED = """
    making.zero_grad()
    (wide(made) - target(real).detach()).pow(2).mean().backward()
    making.step()
"""

SICK = {
    "gradients that are clipped": (
        "judging = torch.optim.SGD(near.parameters(), 0.1)\n"
        + LOOP
        + BOTH
        + "    for d in (near, wide):\n        nn.utils.clip_grad_norm_(d.parameters(), 100.0)\n"
        "    judging.step()\n" + MADE,
        "wide",
        "clipped",
    ),
    "a target that follows": (
        "target = copy.deepcopy(wide)\n"
        + LOOP
        + MIXED
        + "    if step % 2:\n        target.load_state_dict(wide.state_dict())\n",
        "wide",
        "copied from",
    ),
}

HEALTHY = {
    "gradients that are handed to another network": "shared = copy.deepcopy(near)\n"
    "judging = torch.optim.SGD(shared.parameters(), 0.1)\n"
    + LOOP
    + MADE
    + "    near.zero_grad()\n    "
    + JUDGED
    + "    for p, q in zip(shared.parameters(), near.parameters()):\n        p.grad = q.grad\n    judging.step()\n",
    "a network that is updated by hand": "judging = torch.optim.SGD(maker.parameters(), 0.1)\n"
    + LOOP
    + MADE
    + "    judging.zero_grad()\n    near.zero_grad()\n    "
    + JUDGED
    + "    nn.utils.clip_grad_norm_(near.parameters(), 100.0)\n"
    "    for p in near.parameters():\n        p.data -= 0.1 * p.grad\n    judging.step()\n",
    "a network that is updated by hand now and then": "target = copy.deepcopy(wide)\n"
    + LOOP
    + MIXED
    + "    target.load_state_dict(wide.state_dict())\n    if step % 10 == 9:\n"
    "        for p in wide.parameters():\n            p.data -= 0.1 * p.grad\n            p.grad = None\n",
    "an optimizer that comes later": "judging = torch.optim.SGD(maker.parameters(), 0.1)\n"
    + LOOP
    + MADE
    + "    judging.zero_grad()\n    "
    + JUDGED
    + "    judging.step()\n"
    "    if step == 8:\n        judging = torch.optim.SGD(near.parameters(), 0.1)\n",
    "the norm of all, of which a part is left alone": "judging = torch.optim.SGD(near.parameters(), 0.1)\n"
    + LOOP
    + BOTH
    + "    nn.utils.clip_grad_norm_([*near.parameters(), *wide.parameters()], 100.0)\n"
    "    judging.step()\n" + MADE,
    "a norm that is only measured": "judging = torch.optim.SGD(near.parameters(), 0.1)\n"
    + LOOP
    + BOTH
    + "    norm = nn.utils.clip_grad_norm_(wide.parameters(), float('inf'))\n    judging.step()\n"
    + MADE,
    "copies in another dtype are stepped": "kept = [p.detach().double() for p in wide.parameters()]\n"
    "judging = torch.optim.SGD(kept, 1e-9)\n"
    + LOOP
    + "    wide.zero_grad()\n    (wide(real) - 1).pow(2).mean().backward()\n"
    "    nn.utils.clip_grad_norm_(wide.parameters(), 100.0)\n"
    "    for p, q in zip(kept, wide.parameters()):\n        p.grad = q.grad.double()\n    judging.step()\n"
    "    for p, q in zip(kept, wide.parameters()):\n        q.data.copy_(p)\n" + MADE,
    "a trunk that is copied with its head": "target = nn.Sequential(copy.deepcopy(wide), nn.Linear(1, 1))\n"
    "head = nn.Linear(1, 1)\nmaking.add_param_group({'params': head.parameters()})\n"
    + LOOP
    + "    making.zero_grad()\n"
    "    (head(wide(made)) - target(real).detach()).pow(2).mean().backward()\n    making.step()\n"
    "    target.load_state_dict(nn.Sequential(wide, head).state_dict())\n",
    "a fixed judge that is copied once": "target = copy.deepcopy(wide)\ntarget.load_state_dict(wide.state_dict())\n"
    + LOOP
    + MIXED,
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", SICK)
def test_who_waits_for_the_gradients_is_told(name: str, tmp_path: Path) -> None:
    code, whose, why = SICK[name]
    seen = observe(tmp_path, HEAD + code)
    assert (seen.result.status, seen.slugs[:1]) == (0, ["parameters-never-reached"])
    title = seen.found[0].finding.title
    assert f"`{whose}.*`" in title
    assert why in title
    assert seen.patches(), "there is an edit to try"


@pytest.mark.breadth(2)
@pytest.mark.parametrize("name", HEALTHY)
def test_what_nobody_waits_for_is_left_alone(name: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + HEALTHY[name])
    assert (seen.result.status, seen.found) == (0, [])
