"""An optimizer is written as the code at the place can read it, or not at all."""

from __future__ import annotations

from graphdoc.evidence import Frame
from graphdoc.program.optimizer_places import spelled

METHOD = """
class Agent:
    def learn(self, loss):
        self.optimizer.zero_grad()
        loss.backward()

    def other(self, loss):
        loss.backward()


def train(optimizers, loss, scaler):
    for one in optimizers:
        one.zero_grad()
    loss.backward()
    scaler.step(optimizers.last)


agent = Agent()
"""


def _line(text: str, after: str = "") -> Frame:
    start = METHOD.index(after)
    number = METHOD[: METHOD.index(text, start)].count("\n") + 1
    return Frame("a.py", number, 0, number, 0, "", True)


def _spelled(name: str, at: Frame, *calls: Frame) -> str | None:
    return spelled({"a.py": METHOD}, name, at, calls)


def test_as_the_method_itself_writes_it():
    assert _spelled("agent.optimizer", _line("loss.backward"), _line("self.optimizer.zero")) == "self.optimizer"


def test_another_function_does_not_lend_its_spelling():
    other = _line("loss.backward", "def other")
    assert _spelled("model.optimizer", other, _line("self.optimizer.zero")) is None
    assert _spelled("agent.optimizer", other, _line("self.optimizer.zero")) == "agent.optimizer"


def test_the_name_of_a_loop_means_nothing_behind_it():
    assert _spelled("critic", _line("loss.backward", "def train"), _line("one.zero_grad")) is None


def test_what_a_scaler_is_given():
    assert _spelled("a.last", _line("loss.backward", "def train"), _line("scaler.step")) == "optimizers.last"
