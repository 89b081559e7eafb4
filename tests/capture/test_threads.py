"""Graphs of several threads: each numbers its nodes from 0, so no number says when another thread's node was made.

torch/csrc/autograd/function.h: ``Node`` takes ``at::sequence_number::get_and_increment()``, a thread_local counter.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from commands import graphdoc
from seen import Seen, observe

TRAIN = """\
import threading
import torch
def train(steps, carried):
    torch.manual_seed(0)
    cell = torch.nn.GRUCell(3, 4)
    opt = torch.optim.SGD(cell.parameters(), lr=0.1)
    state = torch.zeros(2, 4)
    for i in range(steps):
        new = cell(torch.ones(2, 3), state)
        loss = new.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if carried:
            state = new
def apart(*args):
    thread = threading.Thread(target=train, args=args)
    thread.start()
    thread.join()
"""


def told_of(seen: Seen) -> str:
    """What is said, measured and left open."""
    assert seen.evidence is not None
    return " ".join((seen.found[0].cause.code, seen.said, *seen.found[0].finding.facts, *seen.evidence.degraded))


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "order",
    [
        "apart(40, False)\ntrain(5, True)",
        "train(40, False)\napart(5, True)",
        # The second thread gets the first one's identity from the system.
        "apart(40, False)\napart(5, True)",
    ],
    ids=["then-main", "then-thread", "two-threads"],
)
def test_training_that_went_well_in_another_thread_says_nothing_about_this_one(order: str, tmp_path: Path) -> None:
    told = told_of(observe(tmp_path, TRAIN + order + "\n"))
    assert "GD101" in told and "made before it was observed" not in told, told
    assert "`state` carries the last iteration's graph into this one" in told


def test_a_backward_in_a_pool_comes_after_the_forward_in_main(tmp_path: Path) -> None:
    text = TRAIN.replace("import threading", "from concurrent.futures import ThreadPoolExecutor\nimport threading")
    text = text.replace("        loss.backward()\n", "        pool.submit(loss.backward).result()\n")
    told = told_of(observe(tmp_path, text + "with ThreadPoolExecutor(1) as pool:\n    train(5, True)\n"))
    assert "GD101" in told and "computed before backward #1, which freed its graph" in told, told


SICK = """\
import threading
import torch
def train():
    torch.manual_seed(0)
    m = torch.nn.Linear(4, 4)
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    for i in range(3):
        opt.zero_grad()
        h = torch.sigmoid(m(torch.ones(2, 4)))
        if i == 2:
            h += 1
        h.sum().backward()
        opt.step()
thread = threading.Thread(target=train)
thread.start()
thread.join()
train()
"""


@pytest.mark.slow
def test_a_trial_takes_equal_numbers_of_two_threads_for_no_old_graph(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SICK))
    graphdoc(tmp_path, "run", "--no-rerun", "train.py")
    tried = graphdoc(tmp_path, "fix", "--diff", "--verify-time", "240")
    assert "earlier iteration" not in tried.stderr and re.search(r"(?m)^\+ +h = h \+ 1$", tried.stdout), tried


def test_what_a_short_thread_has_made_was_observed(tmp_path: Path) -> None:
    """``DataParallel`` runs each forward in a thread of its own, whose nodes are numbered from 0 again."""
    text = TRAIN.replace("        new = cell(torch.ones(2, 3), state)\n", "        new = in_thread(cell, state)\n")
    text += textwrap.dedent("""\
        def in_thread(cell, state):
            made = []
            thread = threading.Thread(target=lambda: made.append(cell(torch.ones(2, 3), state)))
            thread.start()
            thread.join()
            return made[0]
        train(5, True)
        """)
    told = told_of(observe(tmp_path, text))
    assert "made before it was observed" not in told and told.startswith("GD1"), told


IN_THREAD = """\
import threading
import torch
torch.manual_seed(0)
def apart(function, *args):
    made = []
    thread = threading.Thread(target=lambda: made.append(function(*args)))
    thread.start()
    thread.join()
    return made[0]
net = torch.nn.Linear(3, 4)
head = torch.nn.Linear(4, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
"""
OVERWRITTEN = """\
def forward(x):
    h = net(x).sigmoid()
    h += 1
    return head(h)
for i in range(4):
    loss = apart(forward, torch.randn(2, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_second_run_sees_who_writes_in_a_short_thread(tmp_path: Path) -> None:
    told = told_of(observe(tmp_path, IN_THREAD + OVERWRITTEN))
    assert "+1 by add_() at train.py:15" in told and "a write that was not seen" not in told, told


@pytest.mark.slow
def test_a_patch_of_what_a_short_thread_has_written_is_compared(tmp_path: Path) -> None:
    """Copying what is saved before it is written is a matter of each thread, too."""
    (tmp_path / "train.py").write_text(IN_THREAD + OVERWRITTEN)
    graphdoc(tmp_path, "run", "train.py")
    tried = graphdoc(tmp_path, "fix", "--diff", "--verify-time", "240")
    assert "+    h = h + 1" in tried.stdout and "gradients equal the reference" in tried.stderr, tried


CUT = """\
def forward(x):
    return head(net(x)).detach()
apart(forward, torch.randn(2, 3)).mean().backward()
"""


def test_a_second_run_sees_what_cuts_in_a_short_thread(tmp_path: Path) -> None:
    seen = observe(tmp_path, IN_THREAD + CUT)
    assert seen.lines("cause") == ["return head(net(x)).detach()"], seen.said


NOT_A_NUMBER = """\
def forward(x):
    return (head(net(x)) * 0 - 1).sqrt()
for i in range(3):
    loss = apart(forward, torch.randn(2, 3)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_second_run_sees_where_a_short_thread_has_made_a_nan(tmp_path: Path) -> None:
    seen = observe(tmp_path, IN_THREAD + NOT_A_NUMBER)
    assert seen.lines("cause") == ["return (head(net(x)) * 0 - 1).sqrt()"], seen.said


CARRIED = """\
cell = torch.nn.GRUCell(3, 4)
opt.add_param_group({"params": [*cell.parameters()]})
state = torch.zeros(2, 4)
for i in range(4):
    state = apart(cell, torch.randn(2, 3), state)
    loss = head(state).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("before", [0, 300])
def test_what_a_helper_computes_in_its_thread_is_not_cut_there(tmp_path: Path, before: int) -> None:
    """The stack begins in the thread, so that all it names is the call with which each pass is computed.

    How many nodes the main thread has made before says nothing of theirs, which each thread numbers from 0.
    """
    made = f"for _ in range({before}):\n    net.weight * 2\n"
    seen = observe(tmp_path, IN_THREAD + made + CARRIED)
    assert seen.found[0].cause.code == "GD101" and not seen.patches(), seen.said
