"""The function that is given what a gradient is asked for and does not read it."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.custom_functions import idle_argument

PROGRAM = """\
import torch

class Solver:
    def __init__(self, rate):
        self.rate = lambda x: rate

    def step(self, weights, data):
        scale = self.rate({given})
        shift = other(weights)
        loss = (data * scale).mean()
        return torch.autograd.grad(loss, weights)
"""
CALL = Frame("train.py", 11, 16, 11, 49, "step")


@pytest.mark.parametrize(("given", "found"), [("data", False), ("weights", True)])
def test_a_lambda_is_told_where_a_call_by_its_own_name_gives_it_the_input(given: str, found: bool) -> None:
    sources = {"train.py": PROGRAM.format(given=given)}
    idle = idle_argument(sources, CALL)
    assert (idle is not None and idle[1] == "x") is found
