"""What a call gave to each name of an unpacked tuple: each answer by a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.program.container_entries import user_frames
from graphdoc.program.expression_values import UNKNOWN, named_value_at, value_at

CRITICS = """
class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.cell = nn.Linear(4, 4), nn.LSTM(4, 4)

    def drawn(self, x):
        mean = self.body(x)
        return mean.tanh(), mean.square()

    def forward(self, x):
        {forward}

policy, one, two = Drawing(), nn.Linear(4, 1), nn.Linear(4, 1)
optims = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (policy, one, two)]

def losses(x):
    act, spread = policy(x)
    return one(act{item}).mean(), two(act{item}).mean()

for _ in range(2):
    first, second = losses(torch.randn(3, 4))
    first.backward()
    optims[1].step()
    second.backward()
    optims[2].step()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("forward", "item", "part", "whole"),
    [
        ("mean = self.body(x); return mean.tanh(), mean.square()", "", "tensor", True),
        ("a, b = self.drawn(x); return a, b", "", "tensor", True),
        ("return self.drawn(x)", "", "tensor", True),
        ("out, state = self.cell(x[None]); return state, out", "[0][0]", UNKNOWN, False),
        ("mean = self.body(x); return (mean.tanh(), mean), mean", "[0]", UNKNOWN, False),
    ],
)
def test_the_part_is_known_by_what_the_called_function_returns(
    tmp_path: Path, forward: str, item: str, part: object, whole: bool
) -> None:
    program = asked(tmp_path, CRITICS.format(forward=forward, item=item))
    reuse = program.reuse
    assert reuse is not None
    producer = program.node(next(iter(reuse.carries)).producer)
    assert producer is not None
    frame = next(f for f in user_frames(producer.stack) if f.function == "losses")
    assert named_value_at(program, producer.stack, frame, "act") == part
    assert (value_at(program, producer.stack, frame) is not None) is whole
