"""What the program's own names for an optimizer and a module are: those that mean the same in every round of a loop."""

from __future__ import annotations

from pathlib import Path

import pytest
from observed import run, script

from graphdoc.capture.tensors.access_paths import loop_names

COHORT = """\
from torch import nn


class Cohort:
    def __init__(self):
        self.nets = [nn.Linear(2, 2), nn.Linear(2, 2)]
        self.opts = [torch.optim.SGD(net.parameters(), lr=0.1) for net in self.nets]

    def train(self, x):
        total = sum(net(x).square().sum() for net in self.nets)
        for i, (net, opt) in enumerate(zip(self.nets, self.opts)):
            opt.zero_grad()
        total.backward()
        for opt in self.opts:
            opt.step()
        total.backward()


cohort = Cohort()
for layer in cohort.nets:
    pass
cohort.train(torch.randn(3, 2))
"""

ALONE = """\


def train():
    for net, opt in [(net, torch.optim.SGD(net.parameters(), lr=0.1)) for net in [torch.nn.Linear(2, 1)]]:
        loss = net(torch.randn(3, 2)).square().sum()
        loss.backward()
        opt.step()
        loss.backward()


train()
"""


def test_a_loops_variable_is_no_name_where_there_is_another(tmp_path: Path) -> None:
    evidence = run(script(tmp_path, COHORT)).only
    assert [o.name for o in evidence.optimizers] == ["cohort.opts[0]", "cohort.opts[1]"]
    assert evidence.optimizers[1].parameters == ["cohort.nets[1].weight", "cohort.nets[1].bias"]


def test_it_is_the_name_where_there_is_no_other(tmp_path: Path) -> None:
    evidence = run(script(tmp_path, ALONE)).only
    assert [o.name for o in evidence.optimizers] == ["opt"]
    assert evidence.optimizers[0].parameters == ["net.weight", "net.bias"]


def test_only_what_a_loop_binds_counts() -> None:
    def sample(a: list[list[int]]) -> int:
        total, last = 0, None
        for i, (first, *rest) in enumerate(a):
            total += first * i
            last = rest
        for j in range(3):
            total += j
        while total:
            total -= 1
        return 0 if last else total

    assert loop_names(sample.__code__) == {"i", "first", "rest", "j"}


STRANGE = """
from collections import namedtuple


class State(namedtuple("State", "mean deter")):
    def __getitem__(self, i):
        return type(self)(*(field[i] for field in self._ours()))

    def __iter__(self):
        print("iterated", flush=True)
        return super().__iter__()

    def __len__(self):
        print("measured", flush=True)
        return super().__len__()

    def _ours(self):
        return tuple.__iter__(self)


class Bag(list):
    def __iter__(self):
        raise Exception("not by iteration")

    def __getitem__(self, i):
        raise Exception("not by index")


class Table(dict):
    def values(self):
        raise Exception("not by values")

    def items(self):
        raise Exception("not by items")


cell = torch.nn.Linear(3, 3)
h = torch.zeros(2, 3)
for _ in range(2):
    KEPT
    h = torch.tanh(cell(READ))
    h.sum().backward()
"""


@pytest.mark.parametrize(
    ("kept", "name", "structure"),
    [
        ("state = State(h * 0, h)", "state.deter", {"namedtuple": ["tensor", "tensor"]}),
        ("bag = Bag([h])", "bag[0]", None),
        ("table = Table(a=h)", "table['a']", {"dict": "tensor"}),
        ("states = [None, h]", "states[1]", {"list": {"optional": "tensor"}}),
        ("states = [1, h]", "states[1]", None),
    ],
)
def test_a_container_is_read_by_none_of_its_own_methods(
    kept: str, name: str, structure: object, tmp_path: Path
) -> None:
    """A recurrent state may index each of its fields (``state[0]``); what observes it must not call that."""
    seen = run(script(tmp_path, STRANGE.replace("KEPT", kept).replace("READ", "h + 0")))
    assert seen.result.stdout == ""
    holders = [h for edge in seen.only.older_edges for h in edge.tensor.holders]
    assert {h.path: h.structure for h in holders if h.path == name} == {name: structure}
