"""Of the later steps the audit looks at a few: the others cost next to nothing, and what begins there is seen."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from observed import run, script

LOOP = """
from graphdoc.capture.audit import Audit

looks, whole = [], Audit.stepped
Audit.stepped = lambda audit, optimizer, seen: (looks.append(seen.steps), whole(audit, optimizer, seen))

net, other = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)), torch.ones(1, requires_grad=True)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
x = torch.randn(8, 4)
for i in range(STEPS):
    opt.zero_grad()
    loss = (net(x).sum() * other).square()
    LATE
    loss.backward()
    opt.step()
print(looks)
"""
LATE = {
    "healthy": ("pass", set()),
    "detached for good": ("if i >= 300: loss = (net(x).sum().detach() * other).square()", {"suspect-hungry"}),
    "written without a version": ("if i >= 200: [p.data.mul_(0.99) for p in net.parameters()]", {"suspect-write"}),
}
"""What happens in each step, and the signs that it leaves."""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("late", LATE)
def test_what_begins_later_is_seen(tmp_path: Path, late: str) -> None:
    statement, signs = LATE[late]
    seen = run(script(tmp_path, LOOP.replace("STEPS", "400").replace("LATE", statement)))
    assert not seen.troubles
    assert {s.kind for e in seen.evidence for s in e.signs} == signs


@pytest.mark.slow
def test_few_of_the_later_steps_are_looked_at(tmp_path: Path) -> None:
    seen = run(script(tmp_path, LOOP.replace("STEPS", "2000").replace("LATE", "pass")))
    looks = eval(seen.result.stdout)
    assert looks[:64] == list(range(1, 65))
    assert max(b - a for a, b in pairwise(n for n in looks if n <= 128)) <= 16
    assert {1000, 1001} <= set(looks)  # all that the parameters hold is compared between the two
    assert len([n for n in looks if n > 1000]) < 100
    assert max(b - a for a, b in pairwise(looks)) <= 32
