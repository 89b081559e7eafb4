"""What is computed anew in each round is not mixed with what stays of the first."""

from __future__ import annotations

import ast

import pytest

from graphdoc.fixes.program_slices import made_of_old

GRAPHS = frozenset({"z", "logp", "h", "loss"})


@pytest.mark.parametrize(
    ("before", "body", "name"),
    [
        ("idx, z = sample()\ny = Y[idx]", "loss = f(z, y)", "idx"),  # the labels are those of the first draw
        ("a, logp = act(s)\nr = reward(s, a)\nadv = r - r.mean()", "loss = logp * adv", "a"),
        ("a, logp = act(s)\nr = reward(s, a)", "loss = logp.mean()", ""),
        ("idx, z = sample()", "loss = f(z, Y[idx])", ""),  # read in the loop, it is the new one
        ("z = encode(x)\nadv = (r - z).detach()", "loss = z * adv", ""),  # a constant of then may well be meant
        ("idx, z = sample()\nidx = fixed\ny = Y[idx]", "loss = f(z, y)", ""),
    ],
)
def test_what_stays_is_named_by_what_it_is_made_of(before: str, body: str, name: str) -> None:
    first, *between = ast.parse(before).body
    (loop,) = ast.parse(f"for _ in range(3):\n    {body}").body
    assert made_of_old([first], [first, *between], loop, GRAPHS) == name
