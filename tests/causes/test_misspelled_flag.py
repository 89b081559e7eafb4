"""``p.require_grad = False`` sets an attribute that nothing reads; one that the program reads is its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seen import observe

TEXT = """\
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
head = nn.Linear(16, 3)
for param in body.parameters():
    FREEZE
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.001)
for _ in range(5):
    x, y = torch.randn(12, 8), torch.randint(0, 3, (12,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(body(x)), y).backward()
    optimizer.step()
"""


def test_an_attribute_of_a_similar_name_is_told_and_mended(tmp_path: Path) -> None:
    seen = observe(tmp_path, TEXT.replace("FREEZE", "param.require_grad = False"))
    assert seen.slugs[:1] == ["frozen-parameters"]
    assert seen.lines("cause") == ["param.require_grad = False"]
    kind, texts = seen.patches()[0]
    assert kind == "rewrite"
    assert "    param.requires_grad = False\n" in texts["train.py"]
    assert observe(tmp_path / "mended", texts["train.py"]).slugs == []


def test_of_parameters_that_were_to_learn_it_is_told_too(tmp_path: Path) -> None:
    text = TEXT.replace("FREEZE", "param.requires_grad = False\n    param.requires_gradient = True")
    assert observe(tmp_path, text).lines("cause") == ["param.requires_gradient = True"]


def test_a_value_that_is_worked_out_is_told_by_what_the_run_had(tmp_path: Path) -> None:
    seen = observe(tmp_path, TEXT.replace("FREEZE", "param.require_grad = param.dim() > 2"))
    assert seen.lines("cause") == ["param.require_grad = param.dim() > 2"]
    assert "freezes nothing" in seen.said
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).slugs == []


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("freeze", "end"),
    [
        ("param.requires_grad = False\n    param.require_grad = False", ""),
        ("param.require_grad = False", "frozen = [p for p in body.parameters() if not p.require_grad]\n"),
        ("param.require_grad = False", "for p in body.parameters():\n    p.require_grad = True\n"),
        ("param.required_by_graph = False", ""),
        ("param.require_grad = False", "frozen = [p for p in body.parameters() if not vars(p)['require_grad']]\n"),
    ],
    ids=["agrees", "is read", "is set both ways", "is another word", "is read by a text"],
)
def test_what_is_no_slip_is_healthy(tmp_path: Path, freeze: str, end: str) -> None:
    assert observe(tmp_path, TEXT.replace("FREEZE", freeze) + end).slugs == []


def test_what_no_optimizer_steps_is_healthy(tmp_path: Path) -> None:
    text = TEXT.replace("FREEZE", "param.require_grad = False").replace("*body.parameters(), ", "")
    assert observe(tmp_path, text).slugs == []
