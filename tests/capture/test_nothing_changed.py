"""Looking at a failure that the program catches changes nothing: no code of the user's runs, nothing is kept alive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from corners import W
from observed import both, run, script

from graphdoc.capture.graph import walk
from graphdoc.capture.tensors import saved
from graphdoc.capture.witness import Witness

BLOCKS = """
import hashlib
from torch import nn
from torch.utils.checkpoint import checkpoint

ran = {"forward": 0, "pack": 0, "unpack": 0}

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x, by)
        return x * by
    @staticmethod
    def backward(ctx, g):
        x, by = ctx.saved_tensors
        return g * by, (g * x).sum(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout()
        self.by = nn.Parameter(torch.ones(8))
    def forward(self, x):
        ran["forward"] += 1
        return x + self.drop(Scale.apply(self.norm(self.linear(x)), self.by).relu())

blocks = nn.ModuleList(Block() for _ in range(6))

def pack(t):
    ran["pack"] += 1
    return t.detach().clone()

def unpack(t):
    ran["unpack"] += 1
    return t

def plainly(block, x):
    return block(x)

def checkpointed(block, x):
    return checkpoint(block, x, use_reentrant=False)

def on_cpu(block, x):
    with torch.autograd.graph.save_on_cpu():
        return block(x)

def packed(block, x):
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return block(x)

def loss_of(way):
    x = torch.randn(16, 8)
    for block in blocks:
        x = way(block, x)
    return x

def no_memory(g):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

def own(g):
    raise RuntimeError("the gradient is too large to go on")

def fail(way, hook):
    y = loss_of(way)
    if hook is not None:
        y.register_hook(hook)
    loss = y.square().mean()
    try:
        loss.backward()
        loss.backward()
    except RuntimeError as e:
        print(type(e).__name__, len(str(e)))

def state():
    h = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for t in blocks.state_dict().values():
        h.update(t.numpy().tobytes())
    print(ran, blocks[0].norm.num_batches_tracked, h.hexdigest())
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize("hook", ["no_memory", "own", "None"])
@pytest.mark.parametrize("way", ["plainly", "checkpointed", "on_cpu", "packed"])
def test_a_caught_error_runs_no_code_of_the_users(way: str, hook: str, tmp_path: Path) -> None:
    plain, seen = both(script(tmp_path, BLOCKS + f"for _ in range(3):\n    fail({way}, {hook})\n    state()\n"))
    assert plain.status == 0, plain.stderr
    assert seen.result == plain
    assert not seen.troubles


def test_an_error_that_is_none_of_autograds_is_not_looked_at(tmp_path: Path) -> None:
    seen = run(script(tmp_path, BLOCKS + "fail(plainly, no_memory)\n"))
    assert seen.result.stdout.startswith("OutOfMemoryError")
    assert not seen.evidence


def test_saved_tensors_that_go_when_they_are_read_are_not_read(tmp_path: Path) -> None:
    if not hasattr(torch.autograd.Function, "clear_saved_tensors_on_access"):
        pytest.skip("this PyTorch has no such Functions")
    source = """
class Once(torch.autograd.Function):
    clear_saved_tensors_on_access = True
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
def fail(g):
    raise RuntimeError("this gradient is not wanted")
y = Once.apply(w)
handle = y.register_hook(fail)
loss = y.sum()
try:
    loss.backward(retain_graph=True)
except RuntimeError:
    handle.remove()
loss.backward()
print(w.grad)
"""
    plain, seen = both(script(tmp_path, W + source))
    assert plain.status == 0, plain.stderr
    assert seen.result == plain


def test_what_a_tensors_class_does_when_asked_is_not_done(tmp_path: Path) -> None:
    source = """
asked = []
class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        asked.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs or {})
mine = torch.randn(3).as_subclass(Own).requires_grad_()
(mine * 2).sum().backward()
y = (w * 2).tanh().sum()
y.backward()
try:
    y.backward()
except RuntimeError:
    pass
print(asked)
"""
    plain, seen = both(script(tmp_path, W + source))
    assert plain.status == 0, plain.stderr
    assert seen.result == plain


def test_what_locals_gave_the_program_is_not_taken_away(tmp_path: Path) -> None:
    source = """
def step():
    first = (w * 2).tanh().sum()
    names = locals()
    second = 1
    first.backward()
    try:
        first.backward()
    except RuntimeError:
        pass
    print(names["first"] is first, sorted(locals()))
step()
"""
    plain, seen = both(script(tmp_path, W + source))
    assert plain.status == 0, plain.stderr
    assert seen.result == plain


FAILURES = """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // 2**20
from graphdoc.capture import failures
written = []
write = failures.write_document
failures.write_document = lambda *args: (written.append(1), write(*args))
def fail(steps, size):
    x = torch.ones(size, requires_grad=True)
    y = x
    for _ in range(steps):
        y = y * x
    y = y.sum()
    {retained}
    try:
        y.backward()
    except RuntimeError:
        pass
def stop(g):
    raise RuntimeError("no gradient today")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("retained", ["y.backward()", "y.register_hook(stop)"])
def test_memory_does_not_grow_with_caught_failures(retained: str, tmp_path: Path) -> None:
    """A graph larger than what can be freed once it has been walked; each holds some 80 MiB."""
    source = FAILURES.format(retained=retained) + "fail(10_500, 2000)\nbefore = resident()\n"
    seen = run(script(tmp_path, source + "for _ in range(4):\n    fail(10_500, 2000)\nprint(resident() - before)\n"))
    assert seen.result.status == 0, seen.result.stderr
    assert int(seen.result.stdout) < 60
    assert any("only" in line for line in seen.only.degraded) or seen.only.graph_size < walk.DEEP


def test_of_a_thousand_caught_failures_one_is_examined(tmp_path: Path) -> None:
    source = FAILURES.format(retained="y.backward()") + "for _ in range(1000):\n    fail(3, 4)\nprint(len(written))\n"
    seen = run(script(tmp_path, source))
    assert seen.result.stdout == "1\n", seen.result.stderr
    assert seen.only.raised is not None
    assert not seen.only.raised.uncaught


def test_nested_checkpoints_are_freed(tmp_path: Path) -> None:
    """Their recomputation is broken off by an exception that passes through backward calls within."""
    source = """
import weakref
from torch.utils.checkpoint import checkpoint
def graded(f):
    def inner(x):
        with torch.enable_grad():
            return torch.autograd.grad(f(x), x, create_graph=True)[0]
    return inner
def checked(f):
    return lambda x: checkpoint(f, x, use_reentrant=False)
class Mark:
    pass
def marks(f):
    node = f(torch.randn((), requires_grad=True)).grad_fn
    found, todo = [], [node]
    while todo:
        node = todo.pop()
        mark = node.metadata["mark"] = Mark()
        found.append(weakref.ref(mark))
        todo += [n for n, _ in node.next_functions if n is not None]
    return found
def f(x):
    return x.sin().exp().sin()
for way in (graded(checked(graded(f))), checked(graded(graded(checked(f)))), graded(checked(graded(checked(f))))):
    print([r() for r in marks(way) if r() is not None])
"""
    seen = run(script(tmp_path, source))
    assert seen.result.stdout == "[]\n" * 3, seen.result.stderr


def test_nodes_that_the_users_anomaly_mode_has_printed_are_freed(tmp_path: Path) -> None:
    source = """
import warnings, weakref
class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        return g + float("nan")
class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return Inner.apply(ctx.saved_tensors[0])
class Mark:
    pass
def fail():
    x = torch.rand(1, requires_grad=True)
    out = Outer.apply(x)
    (g,) = torch.autograd.grad(out, (x,), create_graph=True)
    with warnings.catch_warnings(record=True):
        try:
            with torch.autograd.detect_anomaly():
                g.backward()
        except RuntimeError as e:
            print(e)
    mark = out.grad_fn.metadata[0] = Mark()
    return weakref.ref(mark)
print(fail()())
"""
    plain, seen = both(script(tmp_path, source))
    assert plain.stdout.endswith("None\n"), plain.stderr
    assert seen.result == plain


def test_where_saved_tensors_do_not_tell_hooks_are_watched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch 2.6's do not tell; this one's can be treated as if they did not."""
    monkeypatch.setattr(saved, "TELLS", False)
    witness = Witness(torch, str(tmp_path), "observe")
    saved.watch_hooks(witness)
    try:
        y = torch.ones(2, requires_grad=True).exp()
        made: Any = y.grad_fn
        assert not saved.may_be_hooked(made._raw_saved_result)
        assert not saved.all_unknown()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: pytest.fail("unpacked")):
            y = torch.ones(2, requires_grad=True).exp()
        found = walk.walk([y.grad_fn])
        walk.examine_all(found)
        assert not found[0].released and not found[0].stale
        assert saved.all_unknown()
    finally:
        while witness.undoing:
            witness.undoing.pop()()
        monkeypatch.setattr(saved, "_used", False)


def test_the_programs_own_modes_see_nothing_of_ours(tmp_path: Path) -> None:
    plain, seen = both(
        script(
            tmp_path,
            """
            from torch.overrides import TorchFunctionMode
            from torch.utils._python_dispatch import TorchDispatchMode
            calls = []
            class Functions(TorchFunctionMode):
                def __torch_function__(self, func, types, args=(), kwargs=None):
                    calls.append(getattr(func, "__qualname__", str(func)))
                    return func(*args, **(kwargs or {}))
            class Operators(TorchDispatchMode):
                def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                    calls.append(str(func))
                    return func(*args, **(kwargs or {}))
            m = torch.nn.Linear(4, 4)
            opt = torch.optim.SGD(m.parameters(), lr=0.1)
            with Functions(), Operators():
                for _ in range(12):
                    opt.zero_grad()
                    m(torch.ones(2, 4)).sigmoid().sum().backward()
                    opt.step()
            print(calls)
            """,
        )
    )
    assert seen.result.stdout == plain.stdout and not seen.troubles
    assert "aten.sigmoid.default" in plain.stdout
