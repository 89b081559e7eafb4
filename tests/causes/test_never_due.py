"""A step behind a condition on a remainder: told where a running count would have met it, left alone where not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seen import observe

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = [(x, (x.sum(1) > 0).long()) for x in torch.randn(12, 16, 6)]


def loss_of(x, y):
    return nn.functional.cross_entropy(net(x), y)


"""
COUNTED_ANEW = """\
config = {"every": 4}
optimizer.zero_grad()
for epoch in range(5):
    for i, (x, y) in enumerate(data[:3]):
        (loss_of(x, y) / config["every"]).backward()
        if (i + 1) % config["every"] == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
NOT_COUNTED = """\
class Trainer:
    def __init__(self, used, every):
        self.used, self.every, self.updates = used, every, 0

    def update(self):
        self.used.step()
        self.used.zero_grad()
        self.updates += 1

    def train(self, x, y):
        loss_of(x, y).backward()
        if self.updates % self.every != self.every - 1:
            return
        self.update()


trainer = Trainer(optimizer, 3)
for x, y in data:
    trainer.train(x, y)
"""
CLEARED = """\
every = 1
for i, (x, y) in enumerate(data):
    optimizer.zero_grad()
    loss_of(x, y).backward()
    if i % every != 0:
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (COUNTED_ANEW, 'if (i + 1) % config["every"] == 0:'),
        (NOT_COUNTED, "if self.updates % self.every != self.every - 1:"),
        (CLEARED, "if i % every != 0:"),
    ],
)
def test_a_condition_that_a_running_count_would_have_met_is_told(tmp_path: Path, text: str, cause: str) -> None:
    seen = observe(tmp_path, HEAD + text)
    assert seen.slugs[:1] == ["step-missing"]
    assert seen.lines("cause") == [cause]
    assert seen.found[0].finding.confidence == "likely"


def test_a_remainder_by_one_is_compared_with_zero(tmp_path: Path) -> None:
    kind, texts = observe(tmp_path, HEAD + CLEARED).patches()[0]
    assert kind == "rewrite"
    assert "    if i % every == 0:\n" in texts["train.py"]
    assert observe(tmp_path / "mended", texts["train.py"]).mended


TRAINED = """\
train, every = False, 2
for i, (x, y) in enumerate(data):
    loss_of(x, y).backward()
    if CONDITION:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("condition", ["train and (i + 1) % every == 0", "(i + 1) % 16 == 0", "i % len(data) > 30"])
def test_a_step_that_is_left_out_by_choice_or_is_not_due_yet_is_healthy(tmp_path: Path, condition: str) -> None:
    assert observe(tmp_path, HEAD + TRAINED.replace("CONDITION", condition)).slugs == []


UPDATED = """\
every = 1
for i, (x, y) in enumerate(data):
    loss_of(x, y).backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    if i % every:
        optimizer.step()
"""


def test_parameters_that_are_updated_by_hand_are_healthy(tmp_path: Path) -> None:
    assert observe(tmp_path, HEAD + UPDATED).slugs == []


HOOKED = """\
every, total = 1, []
for p in net.parameters():
    p.register_hook(lambda g: total.append(float(g.norm())))
for i, (x, y) in enumerate(data):
    loss_of(x, y).backward()
    if i % every:
        optimizer.step()
"""


def test_gradients_that_a_hook_takes_are_healthy(tmp_path: Path) -> None:
    assert observe(tmp_path, HEAD + HOOKED).slugs == []


OF_ANOTHER = """\
def step_now_and_then(used, i, every=50):
    if (i + 1) % every == 0:
        used.step()
        used.zero_grad()


def train():
    every = 2
    for i, (x, y) in enumerate(data):
        loss = loss_of(x, y)
        loss.backward()
        if i % every == 0:
            print(loss.item())
        step_now_and_then(optimizer, i)


train()
"""
OF_ANOTHER_OBJECT = """\
class Stepper:
    def __init__(self, every):
        self.every = every

    def after(self, i):
        if i % self.every == self.every - 1:
            optimizer.step()


class Trainer:
    def __init__(self):
        self.every, self.stepper = 3, Stepper(64)

    def train(self):
        for i, (x, y) in enumerate(data):
            loss_of(x, y).backward()
            if i % self.every == 0:
                print(i)
            self.stepper.after(i)


Trainer().train()
"""
EPISODES = """\
episode, length = 1, 0
for x, y in data:
    loss_of(x, y).backward()
    length += 1
    if length == 200:
        episode, length = episode + 1, 0
    if episode % 2 == 0:
        optimizer.step()
"""
GAMES = """\
games, per = [0], 4
for i, (x, y) in enumerate(data):
    loss_of(x, y).backward()
    if i == 500:
        games.append(i)
    if len(games) % per == 0:
        optimizer.step()
"""


@pytest.mark.parametrize("text", [OF_ANOTHER, OF_ANOTHER_OBJECT, EPISODES, GAMES])
def test_a_number_of_another_meaning_and_a_count_of_something_else_are_healthy(tmp_path: Path, text: str) -> None:
    assert observe(tmp_path, HEAD + text).slugs == []


BY_HAND = """\
every, done = 4, 0
while done < 12:
    loss_of(*data[done]).backward()
    done += 1
    if done % every > every:
        optimizer.step()
"""


def test_a_count_that_each_round_adds_to_is_told(tmp_path: Path) -> None:
    assert observe(tmp_path, HEAD + BY_HAND).lines("cause") == ["if done % every > every:"]
