"""Whom a path in the source means, where several networks have parts of one name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphdoc.program.parameter_paths import within

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "causes"))

from seen import observe

TWO = ["teacher.encoder.weight", "student.encoder.weight", "student.enc.weight", "student.layers.0.weight", "w[0]"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("teacher.encoder", {"teacher.encoder.weight": "weight"}),
        ("teacher.encoder.weight", {"teacher.encoder.weight": ""}),
        ("student.enc", {"student.enc.weight": "weight"}),
        ("enc", {"student.enc.weight": "weight"}),
        ("self.encoder", {"teacher.encoder.weight": "weight", "student.encoder.weight": "weight"}),
        ("trainer.student.encoder.parameters", {"student.encoder.weight": "weight"}),
        ("student.layers[0]", {"student.layers.0.weight": "weight"}),
        ("net.layers[i]", {"student.layers.0.weight": "weight"}),
        ("w[0]", {"w[0]": ""}),
        ("w[i]", {}),  # any of several
        ("self.parameters", {}),
        ("rows[0]", {}),
        ("coder", {}),
    ],
)
def test_the_longest_end_of_a_path_that_the_run_knows_decides(path: str, found: dict[str, str]) -> None:
    assert within(path, TWO) == found


HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 4), nn.Linear(4, 1)


teacher, student = Net(), Net()
"""
FROZEN = """
teacher.encoder.requires_grad_(False)
student.encoder.requires_grad_(False)
optimizer = torch.optim.SGD(student.encoder.parameters(), lr=0.1)
loss = student.encoder(torch.randn(8, 4)).pow(2).mean()
loss.backward()
"""
ROUNDED = """
teacher.encoder.bfloat16()
student.encoder.bfloat16()
x = torch.randn(8, 4).bfloat16()
optimizer = torch.optim.SGD(student.encoder.parameters(), lr=1e-5)
for _ in range(6):
    optimizer.zero_grad()
    with torch.no_grad():
        target = teacher.encoder(x)
    (student.encoder(x) - target).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "line"), [(FROZEN, "student.encoder.requires_grad_(False)"), (ROUNDED, "student.encoder.bfloat16()")]
)
def test_the_line_that_is_told_is_not_that_of_another_network(tmp_path: Path, body: str, line: str) -> None:
    told = observe(tmp_path, HEAD + body).lines("cause")
    assert line in told and line.replace("student", "teacher") not in told
