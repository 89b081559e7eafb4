"""Under which name an older value comes into a pass: each answer by a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

START = """
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(3, 4)
"""
UPDATE = """
    opt.zero_grad()
    head(h).square().mean().backward()
    opt.step()
"""

STORED = (
    "memory = None\nfor _ in range(3):\n    h = body(x).tanh()\n    if memory is not None:\n        h = h + memory\n"
)
AGAIN = "memory = None\nfor _ in range(3):\n    h = body(x).tanh()\n    old = h\n    if memory is not None:\n"
KEPT = (
    "kept = {}\ndef table():\n    if 0 not in kept:\n        kept[0] = body(x).tanh()\n    return kept[0]\n"
    "for _ in range(3):\n    h = torch.randn(3, 4) * table()\n"
)
SHAPED = """
for _ in range(3):
    shape, value = torch.zeros(3, 4), body(x).tanh().mean()
    value.square().backward()
    out = torch.cat((shape, value.expand_as(shape)), 1).square().mean()
    opt.zero_grad()
    out.backward()
    opt.step()
"""
TWO_OF_ONE = """
def both(x):
    h = body(x).tanh()
    return h, (2 * h).detach()
def advance(f, s):
    s = (f * s).tanh()
    return s.mean(), s
f, s = both(x)
for _ in range(3):
    out, s = advance(f, s)
    opt.zero_grad()
    out.backward()
    opt.step()
    s = s.detach()
"""
FROM_A_START = "h = body(x).tanh()\nfor _ in range(3):\n    h = h * torch.tanh(h + 1)\n"


@pytest.mark.breadth(3)
@pytest.mark.parametrize(
    ("code", "names", "line"),
    [
        pytest.param(STORED + "    memory = h" + UPDATE, ["memory"], "memory = h", id="stored-after-the-sum"),
        pytest.param(
            AGAIN + "        h = h * memory\n    memory = old" + UPDATE, [], "", id="stored-by-way-of-another-name"
        ),
        pytest.param(KEPT + UPDATE, [], "", id="kept-below-a-call-whose-result-is-bound"),
        pytest.param(SHAPED, ["value"], "", id="of-another-only-the-shape-is-asked"),
        pytest.param(TWO_OF_ONE, ["f"], "", id="bound-beside-a-state-that-is-carried-on"),
        pytest.param(FROM_A_START + UPDATE, ["h"], "h = h * torch.tanh(h + 1)", id="bound-anew"),
    ],
)
def test_name_at_the_use(code: str, names: list[str], line: str, tmp_path: Path) -> None:
    program = asked(tmp_path, START + code)
    assert program.reuse is not None
    evidence, carry = program.evidence, program.reuse.carries[-1]
    assert carry.names_taken_up == names
    place = carry.carried_on or carry.stored_on
    told = evidence.sources[place[0].file].splitlines()[place[0].line - 1].strip() if place is not None else ""
    assert told == line
