"""An older part of a graph: how its values live, and what they are to the loss; each answer by a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.evidence import Event, Evidence, Frame, Node, OlderEdge, Optimizer, Tensor
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import program_of
from graphdoc.program.reuse import Reuse, Role

NETS = """
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
head = nn.Linear(3, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
"""
HEADS = """
body, one, two = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 1), nn.Linear(4, 1)
first = torch.optim.SGD(one.parameters(), lr=0.1)
second = torch.optim.SGD(two.parameters(), lr=0.1)
"""
UPDATE = """
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
BOTH = """
    first.zero_grad()
    one(z).square().mean().backward()
    first.step()
    second.zero_grad()
    two(z).abs().mean().backward()
    second.step()
"""

RECURS = (
    NETS
    + "state = torch.zeros(2, 3)\nfor _ in range(3):\n    state = net(state)\n    loss = head(state).sum()"
    + UPDATE
)
STARTED = (
    NETS
    + "state = net(torch.ones(2, 3)).exp()\nfor _ in range(3):\n    loss = head(state).square().sum()"
    + UPDATE
    + "    state = torch.tanh(state + 1)\n"
)
STORED = (
    NETS
    + "memory = []\nfor _ in range(3):\n    memory.append(net(torch.randn(2, 3)).tanh())\n"
    + "for _ in range(2):\n    loss = sum(head(m).square().mean() for m in memory)"
    + UPDATE
)
MADE_ONCE = (
    NETS + "code = net(torch.ones(2, 3)).tanh()\nfor _ in range(2):\n    loss = head(code).square().sum()" + UPDATE
)
SUMMED = NETS + "loss = 0\nfor _ in range(2):\n    loss = loss + head(net(torch.ones(2, 3))).square().sum()" + UPDATE
RESULT = NETS + "loss = head(net(torch.ones(2, 3))).square().sum()\nloss.backward()\nloss.backward()\n"
SAME_PASS = (
    NETS
    + "for _ in range(2):\n    z = net(torch.ones(2, 3)).tanh()\n    opt.zero_grad()\n"
    + "    head(z).square().sum().backward()\n    head(z).exp().sum().backward()\n    opt.step()\n"
)
REPLAYED = """
encoder, agent = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
agent.optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
memory = []
def replay():
    for z in memory[:1]:
        agent.zero_grad()
        agent(z).square().mean().backward()
        agent.optimizer.step()
for i in range(6):
    z = encoder(torch.ones(2, 3)).exp()
    memory.append(z)
    if i > 3:
        replay()
    optimizer.zero_grad()
    z.square().mean().backward()
    optimizer.step()
"""
LISTED = (
    HEADS.replace("one.parameters()", "[*body.parameters(), *one.parameters()]")
    + """
for _ in range(2):
    codes = []
    for _ in range(3):
        codes.append(body(torch.ones(2, 3)).exp())
    for code in codes:
        first.zero_grad()
        one(code).square().mean().backward()
    second.zero_grad()
    two(codes[0]).abs().mean().backward()
    second.step()
"""
)
FRAMES = (
    NETS
    + """
for clip in range(2):
    frames = []
    opt.zero_grad()
    for t in range(3):
        frames.append(net(torch.randn(2, 3)).tanh())
        head(frames[-1]).square().mean().backward()
    (frames[1] - frames[0]).square().mean().backward()
    opt.step()
"""
)
TASKS = (
    "rate = torch.ones(3, requires_grad=True)\nopt = torch.optim.SGD([rate], lr=0.1)\n"
    + "def error(w):\n    return (torch.randn(5, 3) @ w).square().mean()\n"
    + "w = torch.tanh(rate)\nfor task in range(2):\n"
    + "    inner = torch.autograd.grad(error(w), w, create_graph=True)[0]\n"
    + "    error(w - 0.1 * inner).backward()\nopt.step()\n"
)
TARGET = (
    HEADS.replace("one.parameters()", "[*body.parameters(), *one.parameters()]")
    + "for _ in range(2):\n    z = body(torch.ones(2, 3))"
    + BOTH
)
DATA = HEADS + "for _ in range(2):\n    z = body(torch.ones(2, 3))" + BOTH
BY_HAND = DATA + "    for p in body.parameters():\n        p.data -= 0.1 * p.grad\n"
REFERENCE = (
    NETS
    + "def score(x):\n    return net(x).log_softmax(-1)[:, 0]\n"
    + "x = torch.randn(4, 3)\nold = score(x)\nfor _ in range(2):\n    new = score(x)\n"
    + "    loss = (new - old).exp().mean()"
    + UPDATE
)


def reuse_of(folder: Path, code: str) -> Reuse:
    found = asked(folder, code).reuse
    assert found is not None
    return found


@pytest.mark.breadth(6)
@pytest.mark.parametrize(
    ("code", "lifetime"),
    [
        pytest.param(RECURS, Lifetime.RECURS, id="recurs"),
        pytest.param(STARTED, Lifetime.RECURS, id="carried-on-from-a-start"),
        pytest.param(STORED, Lifetime.STORED, id="stored"),
        pytest.param(MADE_ONCE, Lifetime.MADE_ONCE, id="made-once"),
        pytest.param(SUMMED, Lifetime.SUMMED, id="summed"),
        pytest.param(RESULT, Lifetime.RESULT, id="result"),
        pytest.param(SAME_PASS, Lifetime.SAME_PASS, id="same-pass"),
        pytest.param(REPLAYED, Lifetime.STORED, id="replayed-rounds-later"),
        pytest.param(LISTED, Lifetime.SAME_PASS, id="listed-for-two-losses"),
        pytest.param(FRAMES, Lifetime.SAME_PASS, id="listed-by-an-inner-loop-of-the-pass"),
        pytest.param(TASKS, Lifetime.SAME_PASS, id="same-pass-around-an-inner-gradient"),
    ],
)
def test_lifetime(code: str, lifetime: Lifetime, tmp_path: Path) -> None:
    assert reuse_of(tmp_path, code).lifetime is lifetime


@pytest.mark.breadth(4)
@pytest.mark.parametrize(
    ("code", "role"),
    [
        pytest.param(SAME_PASS, Role.TRAINED, id="trained-by-both"),
        pytest.param(MADE_ONCE, Role.TRAINED, id="trained"),
        pytest.param(TARGET, Role.TARGET, id="target"),
        pytest.param(REPLAYED, Role.TARGET, id="target-of-a-loss-that-has-not-stepped-yet"),
        pytest.param(DATA, Role.DATA, id="data-for-both"),
        pytest.param(REFERENCE, Role.REFERENCE, id="reference"),
        pytest.param(BY_HAND, Role.UNKNOWN, id="a-gradient-is-read-by-hand"),
        pytest.param(RESULT, Role.UNKNOWN, id="no-optimizer-steps"),
    ],
)
def test_role(code: str, role: Role, tmp_path: Path) -> None:
    assert reuse_of(tmp_path, code).role is role


def test_where_a_constant_is_taken_in(tmp_path: Path) -> None:
    """The first loss trains what lies behind ``z``, so it is the second for which it is a constant."""
    found = reuse_of(tmp_path, TARGET)
    assert not found.in_earlier_loss
    assert found.owned_by_others


def test_an_edge_without_calls_is_of_unknown_role() -> None:
    nodes = [Node(0, "AddBackward0", 9), Node(1, "TanhBackward0", 1)]
    evidence = Evidence(nodes=nodes, older_edges=[OlderEdge(0, 1, Tensor())], extras={"shared_with": {}})
    found = program_of(evidence).reuse
    assert found is not None
    assert (found.lifetime, found.role) == (Lifetime.SAME_PASS, Role.UNKNOWN)


def test_a_foreign_value_from_the_middle_of_a_run_is_of_unknown_lifetime() -> None:
    """Made behind the first call, not again since, and trained by no optimizer of this loss."""
    here = [Frame("train.py", 8, 5)]
    nodes = [Node(0, "SubBackward0", 30, here), Node(1, "TanhBackward0", 11, [Frame("train.py", 4, 5)])]
    events = [
        Event(0, "backward", 10, here, root=9, root_op="MeanBackward0"),
        Event(1, "step", 10, optimizer=0),
        Event(2, "backward", 20, here, root=19, root_op="MeanBackward0"),
        Event(3, "step", 20, optimizer=0),
        Event(4, "backward", 31, here, root=30, root_op="MeanBackward0", failed=True),
    ]
    evidence = Evidence(
        nodes=nodes,
        events=events,
        optimizers=[Optimizer(0, "SGD", "opt", ["student.weight"])],
        older_edges=[OlderEdge(0, 1, Tensor(), ["teacher.weight"], freed_by=2)],
        failing_event=4,
        fresh_reaches=["student.weight"],
    )
    found = program_of(evidence).reuse
    assert found is not None
    assert (found.lifetime, found.role) == (Lifetime.UNKNOWN, Role.DATA)


def test_each_evidence_has_one_program() -> None:
    one, other = Evidence(), Evidence()
    assert program_of(one) is program_of(one)
    assert program_of(one) is not program_of(other)


ROUNDS = (
    NETS
    + "for _ in range(2):\n    total = 0\n    for task in range(2):\n        opt.zero_grad()\n"
    + "        head(net(torch.randn(2, 3))).square().sum().backward()\n        opt.step()\n"
    + "        total = total + head(net(torch.randn(2, 3))).square().sum()\n"
    + "    opt.zero_grad()\n    total.backward()\n    opt.step()\n"
)
LAST_ROUND = (
    NETS
    + "state = torch.zeros(2, 3)\nfor _ in range(3):\n    before = state\n    for t in range(2):\n"
    + "        state = net(state)\n    loss = head(torch.exp(before)).square().sum()"
    + UPDATE
)


def test_what_one_round_adds_up_for_a_call_behind_it_is_no_older_part(tmp_path: Path) -> None:
    program = asked(tmp_path, ROUNDS)
    assert program.overwrite is not None and program.reuse is None


def test_what_an_inner_loop_made_for_the_last_call_is_carried(tmp_path: Path) -> None:
    program = asked(tmp_path, LAST_ROUND)
    assert program.overwrite is not None
    assert program.reuse is not None
