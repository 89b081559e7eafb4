"""What only switches flags, and what may do more."""

from __future__ import annotations

import ast

import pytest

from graphdoc.source.effects import only_switches

PROGRAM = """
class Net:
    def freeze(self, model):
        for child in model.children():
            for p in child.parameters():
                p.requires_grad = False
            self.freeze(child)

    def start(self):
        self.freeze(self.body)
        self.head.requires_grad_(True)
        self.train()

    def follow(self, other):
        for p, q in zip(self.parameters(), other.parameters()):
            p.data.copy_(q)

    def reset(self):
        self.freeze(self.body)
        self.best = None
"""


@pytest.mark.parametrize(
    ("call", "only"),
    [
        ("net.freeze(body)", True),
        ("net.start()", True),
        ("net.eval()", True),
        ("net.follow(other)", False),
        ("net.reset()", False),
        ("net.unknown()", False),
    ],
)
def test_a_call_that_only_switches_flags(call: str, only: bool) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert only_switches([ast.parse(PROGRAM)], node) is only
