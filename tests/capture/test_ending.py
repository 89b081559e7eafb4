"""What must hold however a process ends, and after observation has ended."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
from corners import FAILING, TWICE, W
from observed import both, run, script

from graphdoc.evidence import Evidence
from graphdoc.launch import HOOK
from graphdoc.second_run import add_later


def start(path: Path, out: Path, *args: str) -> int:
    """Run in a process of its own, with the start-up hook."""
    environment = dict(os.environ, GRAPHDOC_OUT=str(out), GRAPHDOC_KIND="script", PYTHONPATH=str(HOOK))
    return subprocess.run([sys.executable, str(path), *args], cwd=path.parent, env=environment, timeout=100).returncode


@pytest.mark.slow
def test_an_unwritable_folder_changes_nothing(tmp_path: Path) -> None:
    path = script(tmp_path, W + TWICE)
    plain = run(path, mode="")
    assert run(path, out=Path("/dev/full")).result.stderr.splitlines()[-1] == plain.result.stderr.splitlines()[-1]
    assert run(path, out=tmp_path / "missing").result.status == plain.result.status == 1


def test_a_full_disk_leaves_no_half_written_file(tmp_path: Path) -> None:
    source = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    )
    seen = run(script(tmp_path, source + W + TWICE))
    assert seen.result.status == 1
    assert "second time" in seen.result.stderr
    assert not seen.evidence
    left = [p for p in (tmp_path / "evidence").iterdir() if not p.name.startswith("trouble-")]
    assert sorted(p.name.partition(".")[2] for p in left) == ["ended", "lost", "observed"]
    assert not any(p.stat().st_size for p in left)


def test_what_was_known_before_a_kill_is_on_disk(tmp_path: Path) -> None:
    source = "try:\n    y = (w * 2).tanh().sum(); y.backward(); y.backward()\nexcept RuntimeError:\n    pass\n"
    seen = run(script(tmp_path, W + source + f"import os\nos.kill(os.getpid(), {int(signal.SIGKILL)})\n"))
    assert seen.result.status == -signal.SIGKILL
    assert seen.only.raised is not None
    assert "second time" in seen.only.raised.message


SUM = "net = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\ntotal = net.weight.sum()\n"
UNNOTICED = {
    "through-data": ("probe:hidden", "loss = (total + net(torch.ones(2)).tanh() ** 2).sum()\nnet.weight.data.neg_()\n"),
    "computed-once": ("probe:writes", "loss = (total + net(torch.ones(2))).sum()\n"),
}


@pytest.mark.parametrize("name", UNNOTICED)
def test_a_second_run_that_is_ended_tells_what_no_later_step_takes_back(name: str, tmp_path: Path) -> None:
    mode, loss = UNNOTICED[name]
    steps = f"for step in range(6):\n{indent(loss, '    ')}    loss.backward(retain_graph=True)\n    optimizer.step()\n"
    seen = run(script(tmp_path, SUM + steps + f"import os\nos.kill(os.getpid(), {int(signal.SIGKILL)})\n"), mode=mode)
    evidence = seen.only
    add_later(Evidence(), evidence, whole=False)
    assert evidence.as_if is not None and evidence.went_on


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("thread-leaf", "a leaf Variable that requires grad"),
        ("thread-twice", "second time"),  # and not what the program's own end says of the missing result
        ("thread-ordinary", "a leaf Variable that requires grad"),  # the thread has its own, ordinary trouble
    ],
)
def test_what_ends_a_thread_is_told(name: str, message: str, tmp_path: Path) -> None:
    seen = run(script(tmp_path, FAILING[name]))
    assert seen.only.raised is not None
    assert message in seen.only.raised.message
    assert seen.only.raised.uncaught


@pytest.mark.parametrize("touched", ["", "import os\nos.utime(__file__)"], ids=["", "touched"])
def test_tensors_are_freed_as_early_and_nothing_stays_changed(touched: str, tmp_path: Path) -> None:
    # A file that changed after the process started (the system counts that in ticks) is compared with what runs.
    source = """
import gc, sys, warnings, weakref
from graphdoc import capture
gc.disable()
def once():
    y = (w * 2).tanh().sum()
    big = torch.zeros(100); refs = [weakref.ref(y), weakref.ref(big)]
    y.backward()
    try:
        y.backward()
    except RuntimeError:
        pass
    del y, big
    return [r() is None for r in refs], refs
inside, refs = once()
print(inside, [r() is None for r in refs])
a = torch.randn(3, requires_grad=True)
r = weakref.ref(a)
(a * 2).sum().backward()
del a
print(r() is None)
witness = capture._installed
witness.undo()
import torch.fx.traceback, torch.optim.optimizer as o
print(torch.fx.traceback.format_stack.__module__, torch.is_anomaly_enabled(), torch._C.is_anomaly_enabled())
print([k for m in list(sys.modules.values()) for k in list(getattr(m, "__dict__", None) or {}) if "_graphdoc_" in k])
print(len(o._global_optimizer_post_hooks), warnings.filters.count(witness.calls._filter), sys._getframe().f_trace)
print(torch.set_anomaly_enabled is torch._C.set_anomaly_enabled, (w * 2).grad_fn.metadata)
"""
    seen = run(script(tmp_path, W + touched + source))
    assert seen.result.stdout.splitlines() == [
        "[True, True] [True, True]",
        "True",
        "torch.fx.traceback False False",
        "[]",
        "0 0 None",
        "True {}",
    ], seen.result.stderr


@pytest.mark.slow
def test_a_deep_graph_is_examined_and_freed_without_overflow(tmp_path: Path) -> None:
    source = "y = w\nfor _ in range(60_000):\n    y = y * 1.0\ny = y.sum()\ny.backward()\ny.backward()\n"
    seen = run(script(tmp_path, W + source))
    assert seen.result.status == 1
    assert seen.only.graph_size > 60_000


@pytest.mark.breadth(1)
@pytest.mark.parametrize("change", ["y.tanh()", "y.tanh() * y", "y * w.exp()"])
def test_a_part_that_ends_before_the_failing_node_blames_no_node_in_it(tmp_path: Path, change: str) -> None:
    """What the failing call has itself released was not released by an earlier one. The second part ends with two nodes
    at once, one more than was asked for."""
    source = f"y = w.exp()\ny.sum().backward()\nfor _ in range(12_000):\n    y = {change}\n"
    source += "try:\n    y.sum().backward()\nexcept RuntimeError:\n    pass\n"
    seen = run(script(tmp_path, W + source + f"import os\nos.kill(os.getpid(), {int(signal.SIGKILL)})\n"))
    assert any("nodes were looked at" in said for said in seen.only.degraded)
    assert not seen.only.older_edges
    assert seen.only.extras["dead"] == 0


@pytest.mark.slow
def test_the_journal_is_bounded(tmp_path: Path) -> None:
    source = "for i in range(3000):\n    exec(f'(w * {i}).sum().backward()')\n" + TWICE
    evidence = run(script(tmp_path, W + source)).only
    assert len(evidence.events) < 1500
    assert evidence.events[-1].failed
    assert evidence.events[-1].index == 3001


def test_occurrences_are_counted_by_place(tmp_path: Path) -> None:
    source = (
        "for i in range(5):\n    y = (w * i).tanh().sum()\n    y.backward()\n    if i == 4:\n        y.backward()\n"
    )
    evidence = run(script(tmp_path, W + source)).only
    assert [e.occurrence for e in evidence.events] == [0, 1, 2, 3, 4, 0]


def test_occurrences_are_right_when_the_loop_takes_turns_out_of_order(tmp_path: Path) -> None:
    source = (
        "import random\n"
        "turns = random.Random(7).choices(range(3), k=700)\n"
        "def go(x):\n"
        "    x.backward()\n"
        "for t in turns:\n"
        "    if t == 0:\n"
        "        go((w * 2).sum())\n"
        "    elif t == 1:\n"
        "        go((w * 3).sum())\n"
        "    else:\n"
        "        (w * 4).sum().backward()\n"
    )
    evidence = run(script(tmp_path, W + source + TWICE)).only
    turns = random.Random(7).choices(range(3), k=700)
    wanted = [turns[:i].count(t) for i, t in enumerate(turns)]
    seen = {e.index: e.occurrence for e in evidence.events}
    assert len(seen) > 300
    assert {i: n for i, n in seen.items() if i < 700} == {i: wanted[i] for i in seen if i < 700}


CHILD = """
import sys
import torch.multiprocessing as mp
def work(rank, kind):
    p = torch.ones(2, requires_grad=True)
    y = (p * 2).tanh().sum()
    y.backward()
    if rank == 1 and kind == "engine":
        y.backward()
    if rank == 1 and kind == "leaf":
        p += 1
if __name__ == "__main__":
    mp.start_processes(work, (sys.argv[1],), nprocs=2, start_method=sys.argv[2])
"""


@pytest.mark.parametrize("kind", ["engine", "leaf"])
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_failing_child_process_leaves_its_own_evidence(kind: str, method: str, tmp_path: Path) -> None:
    path, out = script(tmp_path, CHILD), tmp_path / "evidence"
    out.mkdir()
    status = run(path, (kind, method)).result.status if method == "fork" else start(path, out, kind, method)
    assert status == 1
    found = [Evidence.read(str(p)) for p in out.glob("evidence-*.json")]
    failed = [e for e in found if e.raised is not None and "ProcessRaised" not in e.raised.type]
    assert len(failed) == 1
    assert failed[0].raised is not None
    assert failed[0].raised.uncaught
    assert [f.function for f in failed[0].raised.stack if f.user][-1] == "work"
    assert not list(out.glob("trouble-*"))


OWN_RUN = """
import multiprocessing, sys
import torch
class Worker(multiprocessing.Process):
    def run(self):
        try:
            raise KeyError("of its own, and caught")
        except KeyError:
            pass
        p = torch.ones(2, requires_grad=True)
        p += 1
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    worker = Worker()
    worker.start()
    worker.join()
"""


def test_a_failing_child_with_a_run_of_its_own(tmp_path: Path) -> None:
    plain, seen = both(script(tmp_path, OWN_RUN))
    assert seen.result.stderr == plain.stderr
    assert "in-place operation" in plain.stderr
    found = seen.only
    assert found.raised is not None and found.raised.uncaught
    assert [f.function for f in found.raised.stack if f.user] == ["Worker.run"]


ATEXIT = """
import atexit
def last():
    y.backward()
atexit.register(last)
import torch
y = (torch.ones(2, requires_grad=True) ** 2).sum()
y.backward()
"""
DEL = """
import torch
class Model:
    def __del__(self):
        self.y.backward()
model = Model()
model.y = (torch.ones(2, requires_grad=True) ** 2).sum()
model.y.backward()
del model
print("on it goes")
"""
LEAF_DEL = """
import torch
class Model:
    def __del__(self):
        self.w += 1
model = Model()
model.w = torch.ones(2, requires_grad=True)
del model
try:
    {}["none of ours"]
except KeyError:
    pass
"""


@pytest.mark.parametrize(
    ("source", "where", "said"),
    [(ATEXIT, "last", "second time"), (DEL, "Model.__del__", "second time"), (LEAF_DEL, "Model.__del__", "in-place")],
    ids=["atexit", "del", "leaf"],
)
def test_what_nothing_can_catch_is_not_told_as_caught(source: str, where: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(source)
    plain, seen = both(path)
    assert seen.result.status == plain.status == 0
    assert said in plain.stderr and "Exception ignored" in plain.stderr
    assert _plain(seen.result.stderr) == _plain(plain.stderr)
    evidence = seen.only
    assert evidence.raised is not None and evidence.raised.uncaught
    assert said in evidence.raised.message
    left = "an exit callback" if where == "last" and sys.version_info >= (3, 13) else where
    assert evidence.degraded[-1] == f"nothing could catch this exception: Python printed it and left {left}"


def _plain(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)
