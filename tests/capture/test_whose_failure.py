"""The failure that is told is the one that ended the program, whatever was caught before, kept, or raised again."""

from __future__ import annotations

from pathlib import Path

import pytest
from corners import W
from observed import both, made, run, script

from graphdoc.capture.process.ours import is_ours
from graphdoc.evidence import Evidence
from graphdoc.messages.recognise import entries

CAUGHT = """
def tried():
    y = (w * 2).tanh().sum()
    y.backward()
    try:
        y.backward()
    except RuntimeError:
        pass
"""
REAL = """
def train():
    z = (w * 3).sigmoid().sum()
    z.backward()
    z.backward()
"""


def told(evidence: Evidence) -> tuple[str, str, bool]:
    """The function that the error came from, the operation whose graph was gone, and whether it ended the program."""
    assert evidence.raised is not None
    where = [f.function for f in evidence.raised.stack if f.user][-1]
    return where, made(evidence, evidence.nodes[evidence.failing].stack), evidence.raised.uncaught


@pytest.mark.breadth(1)
@pytest.mark.parametrize("times", [1, 2, 7])
def test_one_caught_before_is_not_told(times: int, tmp_path: Path) -> None:
    """The exceptions have one message, and as a rule one identity after the other."""
    seen = run(script(tmp_path, W + CAUGHT + REAL + f"for _ in range({times}):\n    tried()\ntrain()\n"))
    assert told(seen.only) == ("train", "(w * 3).sigmoid()", True)
    assert seen.only.failing_event == 2 * times + 1


def test_of_many_at_one_place_the_last_is_told_whole(tmp_path: Path) -> None:
    source = """
import sys
def step(i):
    y = (w * i).tanh().sum()
    y.backward()
    try:
        y.backward()
    except RuntimeError:
        if i == 6:
            raise
for i in range(int(sys.argv[1]), 7):
    step(i)
"""
    path = script(tmp_path, W + source)
    last = run(path, ("1",)).only
    assert told(last) == ("step", "(w * i).tanh()", True)
    assert last.failing_event == 11
    first = run(path, ("6",), out=_folder(tmp_path)).only
    assert first.failing_event == 1
    assert [n.op for n in last.nodes] == [n.op for n in first.nodes]
    assert [n.state for n in last.nodes] == [n.state for n in first.nodes]
    assert last.extras["locals"] == first.extras["locals"]


AGAIN = {
    "later": "raise kept",
    "from": "raise ValueError('training failed') from kept",
    "while-handling": "try:\n    raise kept\nexcept RuntimeError:\n    {}['missing']",
    "without-traceback": "raise kept.with_traceback(None)",
    "frames-cleared": "import traceback\ntraceback.clear_frames(kept.__traceback__)\nraise kept",
    "in-a-thread": "import threading\nt = threading.Thread(target=again, args=(kept,))\nt.start()\nt.join()",
}


@pytest.mark.breadth(3)
@pytest.mark.parametrize("way", AGAIN)
def test_one_that_is_kept_and_raised_again_is_told(way: str, tmp_path: Path) -> None:
    """So do frameworks: catch, tidy up, and let the same exception go on."""
    source = """
def again(e):
    raise e
kept = None
tried()
try:
    train()
except RuntimeError as e:
    kept = e
(w * 5).sum().backward()
w.grad = None
"""
    plain, seen = both(script(tmp_path, W + CAUGHT + REAL + source + AGAIN[way] + "\n"))
    assert seen.result == plain
    assert told(seen.only) == ("train", "(w * 3).sigmoid()", True)
    assert seen.only.failing_event == 3


def test_an_ordinary_exception_after_it_is_not_taken_for_it(tmp_path: Path) -> None:
    """The same words, at a place where no backward call is."""
    source = "def look():\n    y = (w * 2).exp()\n    y.sum().backward()\n    y.grad_fn._saved_result\nlook()\n"
    seen = run(script(tmp_path, W + CAUGHT + "tried()\n" + source))
    assert seen.only.raised is not None
    assert "second time" in seen.only.raised.message
    assert [f.function for f in seen.only.raised.stack if f.user] == ["<module>", "look"]
    assert seen.only.failing == -1


@pytest.mark.slow
def test_a_very_large_graph_is_told_whole_once_it_has_ended_the_program(tmp_path: Path) -> None:
    source = "y = w\nfor _ in range(30_000):\n    y = y * w\ny = y.sum()\ny.backward()\n"
    part = run(script(tmp_path, W + source + "try:\n    y.backward()\nexcept RuntimeError:\n    pass\n")).only
    assert part.graph_size < 10_000
    assert any("nodes were looked at" in line for line in part.degraded)
    whole = run(script(tmp_path, W + source + "y.backward()\n"), out=_folder(tmp_path)).evidence
    assert [e.graph_size > 30_000 for e in whole] == [True]
    assert not any("nodes were looked at" in line for line in whole[0].degraded)


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "whole"
    folder.mkdir()
    return folder


TEXTS = {
    "twice": "y = (w * 2).tanh().sum(); y.backward(); y.backward()",
    "version": "y = w.exp(); y += 1; y.sum().backward()",
    "version-of-a-leaf": "x = w * w\nwith torch.no_grad(): w.add_(1)\nx.sum().backward()",
    "version-in-inference-mode": "y = w.exp(); y.detach().add_(1)\nwith torch.inference_mode(): y.sum\ny = y.sum()\n"
    "with torch.inference_mode(): y.backward()",
    "version-in-a-function": "y = Keeps.apply(w); w.detach().add_(1); y.sum().backward()",
    "version-behind-another": "try:\n    y = w.exp(); y += 1; y.sum().backward()\nexcept RuntimeError as e:\n"
    "    raise ValueError('no') from e",
    "version-under-modes": "y = w.exp(); y += 1; y = y.sum()\nwith torch.device('meta'):\n    y.backward()",
    "no-graph": "torch.zeros(3).sum().backward()",
    "unused": "torch.autograd.grad((torch.ones(1, requires_grad=True) * 2).sum(), w)",
    "not-scalar": "(w * 2).backward()",
    "bad-gradient": "Bad.apply(w).sum().backward()",
    "nan": "with torch.autograd.detect_anomaly():\n    (w * 0).sqrt().sum().backward()",
    "users-own": "class Own(RuntimeError): pass\ndef f(g): raise Own('a', 1)\n"
    "y = w * 2; y.register_hook(f); y.sum().backward()",
    "noted": "def f(g):\n    e = ValueError('no'); e.add_note('a note'); raise e\n"
    "y = w * 2; y.register_hook(f); y.sum().backward()",
}


@pytest.mark.breadth(2)
@pytest.mark.parametrize("kind", TEXTS)
def test_an_exception_says_what_it_says_without_us(kind: str, tmp_path: Path) -> None:
    source = f"""
import traceback
class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
class Bad(Keeps):
    @staticmethod
    def backward(ctx, g):
        return g, g
def do():
{"".join("    " + line + chr(10) for line in TEXTS[kind].splitlines())}
for _ in range(2):
    try:
        do()
    except Exception as e:
        print(repr(e), e.args, getattr(e, "__notes__", None), vars(e), repr(e.__cause__), repr(e.__context__))
        print(traceback.format_exc())
        print(len(traceback.extract_tb(e.__traceback__)), torch.autograd._get_sequence_nr() < 1 << 40)
do()
"""
    plain, seen = both(script(tmp_path, W + source))
    assert plain.status == 1
    assert seen.result == plain
    assert not seen.troubles


OUTSIDE = {"amp", "forward-ad", "functional", "functorch", "gradcheck", "optimizer", "leaf-requires-grad"}
"""Families whose messages no backward call raises."""


def test_every_message_of_the_engine_is_known_for_one() -> None:
    """The words are kept apart from the catalogue of messages, which is not loaded into the user's process."""
    known = [e for e in entries() if e.kind == "error" and e.causes and not e.generic and e.family not in OUTSIDE]
    assert len(known) > 100
    missed = [e.example for e in known if not is_ours(RuntimeError(e.example))]
    # Raised in the forward pass, or by a step.
    assert {m.partition(":")[0].partition("aten.")[0] for m in missed} <= {
        "",  # an operator got mixed torch.Tensor and DTensor
        "DTensor does not support cross-mesh operation on ",
        "setup_context is not implemented.",
        "unsupported operation",
        "save_for_forward expects all arguments to be tensors;",
    }


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        KeyboardInterrupt(),
        RuntimeError("CUDA error: device-side assert triggered"),
        type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory while the graph was differentiated"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_what_has_nothing_to_do_with_graphs_is_not_ours(error: BaseException) -> None:
    assert not is_ours(error)
