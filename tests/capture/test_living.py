"""What is known of a tensor, an optimizer or a scaler that has ended is not told of the next one with its id."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch
from observed import both, run, script

from graphdoc.capture.events.journal import MOST_OPTIMIZERS, Journal
from graphdoc.capture.tensors.living import Living

AGAIN = """
    known, others = set(), []

    def again(make, ids):
        "What is made until one has an id that is known, which is nearly always the first or the second."
        for _ in range(300):
            made = make()
            if known & ids(made):
                break
            others.append(made)
        return made
"""
SWEEP = """
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 8)
            self.extra = torch.nn.Linear(8, 1)

        def forward(self, x, whole):
            h = self.first(x).relu()
            return h + self.extra(h) if whole else h

    def train(whole):
        net = Net() if whole else again(Net, lambda net: {id(p) for p in net.extra.parameters()})
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(torch.randn(5, 4), whole).mean()
            loss.backward()
            optimizer.step()
        if not whole:
            loss.backward()
        known.update(id(p) for p in net.parameters())

    for _ in range(5):
        train(True)
    train(False)
"""


def test_a_network_that_has_ended_gives_nothing_to_the_next(tmp_path: Path) -> None:
    evidence = run(script(tmp_path, textwrap.dedent(AGAIN) + textwrap.dedent(SWEEP))).only
    extra = [p for p in evidence.parameters if p.name.startswith("net.extra")]
    assert [p.steps_with_grad for p in extra] == [0, 0]
    assert not any("net.extra" in name for event in evidence.events for name in event.reaches)
    assert {e.optimizer for e in evidence.events if e.kind == "step"} == {o.id for o in evidence.optimizers}


def test_a_frozen_network_that_has_ended_has_no_other_ones_name(tmp_path: Path) -> None:
    source = """
        def features(x):
            net = torch.nn.Linear(4, 8).requires_grad_(False)
            known.update(id(p) for p in net.parameters())
            return net(x)

        h = features(torch.randn(5, 4))
        trained = again(lambda: torch.nn.Linear(4, 8), lambda net: {id(p) for p in net.parameters()})
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        h.mean().backward()
    """
    evidence = run(script(tmp_path, textwrap.dedent(AGAIN) + textwrap.dedent(source)), mode="probe:cuts").only
    assert [(cut.reason, cut.behind) for cut in evidence.cuts] == [("frozen", [])]


def test_an_id_is_forgotten_when_it_is_anothers() -> None:
    now = 3
    forgotten: list[set[int]] = []
    living = Living(lambda: now, forgotten.append)
    kept: set[int] = living.forgetting(set())
    ids = []
    for _ in range(20):
        tensor = torch.ones(2)
        living.note([tensor])
        assert id(tensor) not in kept
        living.note([tensor])
        kept.add(id(tensor))
        ids.append(id(tensor))
        del tensor
    assert len({*ids}) < len(ids)
    assert set().union(*forgotten) == {i for i in ids if ids.count(i) > 1}
    again = max(ids, key=ids.count)
    assert living.then(frozenset({again}), 2) == {-again}
    assert living.then(frozenset({again}), 3) == {again}


def test_optimizers_that_have_ended_are_forgotten_when_they_are_many() -> None:
    journal = Journal(lambda: 0)
    parameter = torch.nn.Parameter(torch.ones(1))
    stays = torch.optim.SGD([parameter])
    journal.stepped(stays)
    numbers = [journal.stepped(torch.optim.SGD([parameter])).id for _ in range(3 * MOST_OPTIMIZERS)]
    assert numbers == list(range(1, 3 * MOST_OPTIMIZERS + 1))
    assert len(journal.optimizers) <= MOST_OPTIMIZERS
    assert journal.optimizer(stays) is journal.optimizers[0]
    assert journal.steps == 3 * MOST_OPTIMIZERS + 1


def test_the_steps_of_an_optimizer_that_has_ended_are_no_trouble(tmp_path: Path) -> None:
    source = """
        def train():
            net = torch.nn.Linear(3, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(8):
                optimizer.zero_grad()
                net(torch.randn(4, 3)).square().mean().backward()
                optimizer.step()

        train()
        train()
    """
    seen = run(script(tmp_path, source))
    assert (seen.evidence, seen.troubles) == ([], [])


def test_a_scaler_is_not_told_the_calls_of_one_that_has_ended(tmp_path: Path) -> None:
    source = """
        net = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        def train(twice):
            make = lambda: torch.amp.GradScaler("cpu")
            scaler = again(make, lambda scaler: {id(scaler)}) if twice else make()
            known.add(id(scaler))
            scaler.scale(net(torch.randn(3, 2)).mean()).backward()
            scaler.unscale_(optimizer)
            if twice:
                scaler.unscale_(optimizer)

        for _ in range(20):
            train(False)
        train(True)
    """
    evidence = run(script(tmp_path, textwrap.dedent(AGAIN) + textwrap.dedent(source))).only
    assert [call["kind"] for call in evidence.extras["scaler"]] == ["unscale_", "unscale_"]


@pytest.mark.breadth(2)
@pytest.mark.parametrize("mode", ["observe", "probe:cuts", "probe:whatif:all", "verify"])
def test_parameters_can_be_swapped(tmp_path: Path, mode: str) -> None:
    """PyTorch refuses it where anything refers to one of the two weakly."""
    source = """
        torch.__future__.set_swap_module_params_on_conversion(True)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for i in range(12):
            loss = net(torch.randn(5, 4, dtype=net[0].weight.dtype)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del loss
            net.to(torch.float32 if i % 2 else torch.float64)
        print("ended")
    """
    assert run(script(tmp_path, source), mode=mode).result.stdout == "ended\n"


def test_a_weak_reference_of_the_programs_own_still_counts(tmp_path: Path) -> None:
    source = """
        import weakref
        net = torch.nn.Linear(2, 1)
        reference = weakref.ref(net.weight)
        torch.utils.swap_tensors(net.weight, torch.nn.Parameter(torch.ones(1, 2)))
    """
    plain, seen = both(script(tmp_path, source))
    assert plain.stderr == seen.result.stderr
    assert "Cannot swap t1" in plain.stderr
