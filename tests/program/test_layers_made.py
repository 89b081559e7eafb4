"""Where a layer is made, read off the classes of the program by the layer's name."""

from __future__ import annotations

import pytest

from graphdoc.program.modules_in_source import layers_without, made_at
from graphdoc.program.spans import code_at

SOURCE = """\
class Block(nn.Module):
    def __init__(self):
        self.norm, self.out = nn.LayerNorm(4), nn.Linear(4, 4)
class Net(nn.Module):
    def __init__(self, n):
        self.body = Block()
        self.heads = nn.ModuleDict({"a": Block(), "b": nn.Linear(4, 2)})
        self.tail = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.many = nn.ModuleList([Block() for _ in range(n)])
        self.scale = nn.Parameter(torch.ones(1))
class Other(nn.Module):
    def __init__(self):
        self.body = nn.Linear(4, 4)
"""
EVERY = [
    *(f"body.{n}" for n in ("norm.weight", "out.weight", "out.bias")),
    *("heads.a.norm.weight", "heads.a.out.weight", "heads.b.weight", "heads.b.bias"),
    *("tail.0.weight", "tail.2.weight", "many.0.norm.weight", "many.1.norm.weight", "scale"),
]


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        ("body", "Block()"),
        ("body.out", "nn.Linear(4, 4)"),
        ("heads.b", "nn.Linear(4, 2)"),
        ("heads.a.norm", "nn.LayerNorm(4)"),
        ("tail.2", "nn.Linear(4, 1)"),
        ("many.1", "nn.ModuleList([Block() for _ in range(n)])"),
        ("scale", "nn.Parameter(torch.ones(1))"),
        ("body.out.weight", "nn.Linear(4, 4)"),
        ("unknown", None),
    ],
)
def test_made(layer, code):
    sources = {"net.py": SOURCE}
    at = made_at(sources, layer, EVERY)
    assert (at and code_at(sources, at)) == code


def test_not_where_two_classes_may_be_the_models():
    assert made_at({"net.py": SOURCE}, "body", ["body.weight"]) is None


def test_the_outermost_layers_that_are_idle_as_a_whole():
    idle = ["body.out.bias", "heads.b.weight", "heads.b.bias", "many.0.norm.weight", "many.1.norm.weight"]
    assert layers_without(idle, EVERY) == ["body.out.bias", "heads.b", "many"]
