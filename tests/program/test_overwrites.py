"""What was overwritten, and what lies behind the value that a cut would end; each answer by a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.fixes.kinds import build
from graphdoc.remedies.update_order import stepped_remedies
from graphdoc.source.module import Source

PLAIN = "def layer(*size):\n    return nn.Linear(*size)\n"
NORMED = "def layer(*size):\n    return nn.utils.spectral_norm(nn.Linear(*size))\n"
OWN = """
class layer(nn.Module):
    def __init__(self, *size):
        super().__init__()
        self.inner = nn.Linear(*size)

    def scaled(self):
        return self.inner.weight / self.inner.weight.norm()

    def forward(self, x):
        return x @ self.scaled().T
"""
NETS = """
maker = nn.Linear(3, 4)
critic = nn.Sequential(layer(4, 6), nn.Tanh(), layer(6, 1))
making = torch.optim.SGD(maker.parameters(), lr=0.1)
rating = torch.optim.SGD(critic.parameters(), lr=0.1)
"""
IN_LINE = """
made = maker(torch.randn(5, 3))
wanted = -critic(made).mean()
rating.zero_grad()
critic(made.detach()).mean().backward()
rating.step()
making.zero_grad()
wanted.backward()
making.step()
"""
BELOW = """
def update(one, other):
    rating.zero_grad()
    one.backward()
    rating.step()
    making.zero_grad()
    other.backward()
    making.step()

made = maker(torch.randn(5, 3))
"""
CALLS = [
    "one, other = critic(made.detach()).mean(), -critic(made).mean()\nupdate(one, other)\n",
    "update(critic(made.detach()).mean(), -critic(made).mean())\n",
]


@pytest.mark.breadth(1)
@pytest.mark.parametrize("layer", [PLAIN, NORMED, OWN], ids=["plain", "normed", "own"])
def test_a_network_that_a_loss_learns_through_is_no_constant(tmp_path: Path, layer: str) -> None:
    """A weight that is normalised before its use leads to itself alone; the result of its network leads to more."""
    found = asked(tmp_path, layer + NETS + IN_LINE).overwrite
    assert found is not None
    assert found.own == {"maker.weight", "maker.bias"}
    assert not found.constant


def test_a_network_that_only_judges_data_is_a_constant(tmp_path: Path) -> None:
    code = NORMED + NETS + IN_LINE.replace("-critic(made).mean()", "maker(made).mul(critic(made.detach())).mean()")
    found = asked(tmp_path, code.replace("nn.Linear(3, 4)", "nn.LazyLinear(4)").replace("(5, 3)", "(5, 4)")).overwrite
    assert found is not None
    assert not found.own
    assert found.constant


@pytest.mark.parametrize("calls", CALLS, ids=["before", "in the call"])
def test_a_step_and_a_backward_in_one_function_are_put_in_order_there(tmp_path: Path, calls: str) -> None:
    program = asked(tmp_path, NORMED + NETS + BELOW + calls)
    assert program.overwrite is not None
    assert stepped_remedies(program, program.overwrite)[0].kind == "steps_last"


def test_a_loss_for_two_optimizers_gives_gradient_to_both(tmp_path: Path) -> None:
    """A loss of two networks in a row: differentiated for the parameters of one, it would teach the other nothing."""
    code = NORMED + NETS + "first = nn.Linear(3, 3)\nshaping = torch.optim.SGD(first.parameters(), lr=0.1)\n" + BELOW
    for call in ("zero_grad", "step"):
        code = code.replace(f"making.{call}()", f"making.{call}()\n    shaping.{call}()")
    code = code.replace("maker(torch.randn(5, 3))", "maker(first(torch.randn(5, 3)))") + CALLS[0]
    program = asked(tmp_path, code)
    assert program.overwrite is not None
    first, *others = stepped_remedies(program, program.overwrite)
    assert first.kind == "steps_last" and [r.kind for r in others] == ["clone_parameters"]
    (mended,) = build(first.kind, {f: Source(f, t) for f, t in program.sources.items()}, first.args).values()
    assert "o in (making, shaping) for g in o.param_groups" in mended


ALIKE = """
for _ in range(2):
    noise = torch.randn(5, 3)
    made = maker(noise)
    {between}
    for k in range(3):
        making.zero_grad()
        critic(made{part}).mean().backward(retain_graph=True)
        making.step()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("between", "part", "kinds"),
    [
        ("pass", "", {"move_into_loop", "clone_parameters"}),
        ("made = made + 1", "", {"move_into_loop", "clone_parameters"}),
        ("noise = torch.randn(5, 3)", "", {"clone_parameters"}),
        ("pass", "[k]", {"step_behind_loop", "move_into_loop", "clone_parameters"}),
    ],
)
def test_rounds_that_are_alike_each_get_a_forward_of_their_own(
    tmp_path: Path, between: str, part: str, kinds: set[str]
) -> None:
    """Steps on one and the same result are so many steps; where the forward gives the result no more, none is told."""
    nets = PLAIN + NETS.replace("maker = nn.Linear(3, 4)", "maker = nn.Sequential(layer(3, 4), nn.Tanh(), layer(4, 4))")
    program = asked(tmp_path, nets + ALIKE.format(between=between, part=part))
    assert program.overwrite is not None
    told = {r.kind for r in stepped_remedies(program, program.overwrite)}
    assert told & {"move_into_loop", "step_behind_loop", "clone_parameters"} == kinds
