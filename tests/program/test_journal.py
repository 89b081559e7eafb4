"""The calls of a run: what stepped between two of them, which started at one tensor, for whom each of them works."""

from __future__ import annotations

from pathlib import Path

from questions import asked

from graphdoc.evidence import Event, Frame, Optimizer
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.optimizer_places import Owners
from graphdoc.story.wording import all_told

TWO = """
actor, critic = nn.Linear(3, 1), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
actor_optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(5, 3)
    value = critic(x)
    critic_optimizer.zero_grad()
    value.square().mean().backward()
    critic_optimizer.step()
    actor_optimizer.zero_grad()
    (actor(x) * value).mean().backward()
    actor_optimizer.step()
"""


def test_a_call_works_for_the_optimizer_that_steps_after_it(tmp_path: Path) -> None:
    program = asked(tmp_path, TWO)
    reuse = program.reuse
    assert reuse is not None and reuse.calls is not None
    names = [all_told(program.optimizers, ids) for ids in reuse.works_for]
    assert names == [["`critic_optimizer`"], ["`actor_optimizer`"]]
    assert program.trained == frozenset({"actor.weight", "actor.bias"})


def test_the_step_between_two_calls_is_seen(tmp_path: Path) -> None:
    program = asked(tmp_path, TWO)
    assert program.reuse is not None and program.reuse.calls is not None
    stepped = program.journal.steps_between(*program.reuse.calls)
    assert stepped is not None
    assert all_told(program.optimizers, stepped) == ["`critic_optimizer`"]
    assert program.reuse.stepped and not program.reuse.calm


def test_without_any_step_or_optimizer_nothing_is_known_of_whom_a_call_is_for(tmp_path: Path) -> None:
    code = "loss = nn.Linear(2, 1)(torch.randn(4, 2)).square().sum()\nloss.backward()\nloss.backward()\n"
    program = asked(tmp_path, code)
    assert program.failing is not None
    assert program.journal.works_for(program.failing) == frozenset()
    assert program.trained is None
    earlier = program.journal.earlier(program.failing)
    assert earlier is not None and earlier.index < program.failing.index
    assert program.journal.number(program.failing) == 2


KEPT_LONG = """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(400):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    if step == 350:
        kept = loss
    if step == 390:
        loss = loss + kept
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_call_of_a_long_run_has_its_number_in_the_run(tmp_path: Path) -> None:
    """The journal lacks what happened between the first calls and the latest."""
    program = asked(tmp_path, KEPT_LONG)
    assert program.failing is not None and len(program.journal.events) < program.failing.index
    assert program.journal.number(program.failing) == 391
    first, early = program.journal.events[0], program.journal.events[1]
    assert (first.kind, early.kind, early.number) == ("zero_grad", "backward", 1)
    assert program.reuse is not None and program.reuse.calls is not None
    assert program.journal.number(program.reuse.calls[0]) == 351


def _journal(*events: Event) -> Journal:
    return Journal(events, Owners([Optimizer(0, "SGD", "opt", ["w"])]), {})


def test_a_gap_in_the_journal_leaves_it_unknown_whether_something_stepped() -> None:
    first, last = Event(3, "backward"), Event(9, "backward", failed=True)
    assert _journal(first, last).steps_between(first, last) is None
    assert _journal(first, last).number(last) is None
    step = Event(5, "step", optimizer=0)
    assert _journal(first, step, last).steps_between(first, last) == frozenset({0})


def test_between_neighbours_surely_nothing_stepped() -> None:
    first, last = Event(3, "backward"), Event(4, "backward", failed=True)
    assert _journal(first, last).steps_between(first, last) == frozenset()


def test_calls_on_other_tensors_are_no_earlier_ones() -> None:
    here = [Frame("train.py", 3, 1)]
    first = Event(0, "backward", stack=here, root=4, root_op="MeanBackward0")
    last = Event(1, "backward", stack=here, root=9, root_op="MeanBackward0", failed=True)
    assert _journal(first, last).earlier(last) is None


def test_another_output_of_the_same_node_is_another_tensor() -> None:
    first = Event(0, "backward", root=4, root_op="UnbindBackward0", root_output=0)
    last = Event(1, "backward", root=4, root_op="UnbindBackward0", root_output=1, failed=True)
    assert _journal(first, last).earlier(last) is None
    again = Event(2, "backward", root=4, root_op="UnbindBackward0", root_output=0, failed=True)
    assert _journal(first, last, again).earlier(again) is first
