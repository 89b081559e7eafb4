"""An optimizer that no line steps trains nothing; where a line may step it, it is not called idle."""

from __future__ import annotations

import pytest
from questions import asked

from graphdoc.program.optimizer_places import idle_optimizers

AGENTS = """
class Net(nn.Linear):
    def __init__(self):
        super().__init__(3, 1)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)


class Agent:
    def __init__(self):
        self.actor, self.target = Net(), Net()


agents = [Agent(), Agent()]
x = torch.randn(4, 3)
goals = torch.cat([agent.target(x) for agent in agents], 1)
for agent in agents:
    loss = (agent.actor(x) - goals).square().mean()
    agent.actor.optimizer.zero_grad()
    loss.backward()
    %s
"""


def _idle(tmp_path, step: str) -> set[str]:
    program = asked(tmp_path, AGENTS % step)
    idle = idle_optimizers(program.evidence.sources, program.evidence.events, program.evidence.optimizers)
    return {o.name.split(".")[-2] for o in program.evidence.optimizers if o.id in idle}


def test_the_optimizer_of_a_network_that_only_follows(tmp_path):
    assert _idle(tmp_path, "agent.actor.optimizer.step()") == {"target"}


def test_what_may_be_stepped_later_is_not_idle(tmp_path):
    later = "agent.actor.optimizer.step()\nfor agent in agents:\n    agent.target.optimizer.step()"
    assert _idle(tmp_path, later) == set()


def test_another_name_is_followed(tmp_path):
    assert _idle(tmp_path, "optimizer = agent.actor.optimizer\n    optimizer.step()") == {"target"}


def test_a_step_on_what_a_function_gives_may_mean_any(tmp_path):
    given = "optimizer = next(iter([agent.actor.optimizer]))\n    optimizer.step()"
    assert _idle(tmp_path, given) == set()


BARE = """
net = nn.Linear(3, 1)
of_all = torch.optim.SGD(net.parameters(), lr=0.1)
spare = torch.optim.SGD(net.parameters(), lr=0.1)


def train():
    for _ in range(2):
        spare.zero_grad()
        loss = net(torch.randn(4, 3)).square().sum()
        loss.backward()
        of_all.step()
    loss.backward()


%s
train()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", {"spare"}),
        ("def later():\n    spare.step()", set()),
        ("for opt in (of_all, spare):\n    opt.zero_grad()", {"spare"}),
        ("def step_all(opts):\n    for opt in opts:\n        opt.step()", set()),
        ("def again(of_all):\n    of_all.step()", set()),
    ],
    ids=["never", "in a function that is not called", "not called", "in a loop", "of an argument of that name"],
)
def test_a_name_that_is_bound_once_means_one_optimizer(tmp_path, more: str, expected: set[str]):
    program = asked(tmp_path, BARE % more)
    idle = idle_optimizers(program.evidence.sources, program.evidence.events, program.evidence.optimizers)
    assert {o.name for o in program.evidence.optimizers if o.id in idle} == expected


def test_the_step_of_an_environment_is_none(tmp_path):
    env = "def f():\n        state, reward = env.step(agent)\n    agent.actor.optimizer.step()"
    assert _idle(tmp_path, env) == {"target"}


LEARNERS = """
class Net(nn.Linear):
    def __init__(self):
        super().__init__(3, 1)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def learn(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.update()

    def update(self):
        self.optimizer.step()


actor, target = Net(), Net()
x = torch.randn(4, 3)
goal = target(x)
for _ in range(2):
    actor.learn((actor(x) - goal).square().mean())
%s
"""


def _idle_learners(tmp_path, more: str) -> set[str]:
    program = asked(tmp_path, LEARNERS % more)
    idle = idle_optimizers(program.evidence.sources, program.evidence.events, program.evidence.optimizers)
    return {o.name.split(".")[0] for o in program.evidence.optimizers if o.id in idle}


def test_a_method_that_is_never_called_on_the_network_that_only_follows(tmp_path):
    assert _idle_learners(tmp_path, "") == {"target"}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("later", ["target.learn(target(x).mean())", "for n in (actor, target):\n    n.update()"])
def test_a_method_that_may_be_called_on_it_later(tmp_path, later):
    assert _idle_learners(tmp_path, later) == set()
