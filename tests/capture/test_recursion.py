"""A program that recurses until Python stops it gets as deep as without us, and its error shows none of our frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from corners import W
from observed import both, made, script

ENDING = """
import gc, traceback, warnings
def ended(run, *args):
    try:
        print(run(*args))
    except RecursionError as e:
        frames = list(traceback.walk_tb(e.__traceback__))
        print(depth, len(frames), frames[-1][0].f_code.co_filename, frames[-1][0].f_code.co_name, frames[-1][1], e)
    print(gc.isenabled(), len(warnings.filters), torch.is_grad_enabled(), torch.is_anomaly_enabled())
depth = 0
"""
DEEPER = {
    "python": "    return deeper(x)",
    "nodes": "    return deeper(x * 2)",
    "nodes-at-the-bottom": "    try:\n        return deeper(x)\n    finally:\n        x * 2",
    "modules": "    return net(x)",
    "no-grad": "    with torch.no_grad():\n        return deeper(x)",
    "caught-at-each-level": "    try:\n        deeper(x * 2)\n    except RecursionError:\n        x * 3",
}
ENDS = {
    "node": "w * 2",
    "built-in": "torch.nn.functional.linear(w, w)",
    "backward": "(w * 2).sum().backward()",
    "grad": "torch.autograd.grad((w * 2).sum(), w)",
    "zero-grad": "opt.zero_grad()",
    "step": "opt.step()",
    "no-grad": "torch.no_grad().__enter__(), torch.set_grad_enabled(True)",
    "warning": "warnings.warn('deep')",
}


@pytest.mark.breadth(3)
@pytest.mark.parametrize("way", DEEPER)
def test_as_deep_as_without_us(way: str, tmp_path: Path) -> None:
    source = f"""
class Net(torch.nn.Module):
    def forward(self, x):
        return deeper(torch.nn.functional.relu(x))
net = Net()
def deeper(x):
    global depth
    depth += 1
{DEEPER[way]}
ended(deeper, w)
ended(deeper, w * 2)
"""
    plain, seen = both(script(tmp_path, W + ENDING + source))
    assert plain.status == 0, plain.stderr
    assert seen.result == plain
    assert not seen.troubles


@pytest.mark.breadth(1)
@pytest.mark.parametrize("way", ENDS)
def test_what_is_called_at_the_limit(way: str, tmp_path: Path) -> None:
    source = f"""
opt = torch.optim.SGD([w], lr=0.1)
def deeper(n):
    return deeper(n - 1) if n else {ENDS[way]}
for n in range(900, 1000):
    ended(deeper, n)
w.grad = None
(w * 2).sum().backward()
print(w.grad)
"""
    plain, seen = both(script(tmp_path, W + ENDING + source))
    assert plain.status == 0, plain.stderr
    assert "RecursionError" not in plain.stderr
    assert seen.result == plain
    assert not seen.troubles


def test_what_comes_after_it_is_observed(tmp_path: Path) -> None:
    source = """
def deeper(x):
    return deeper(x * 2)
ended(deeper, w)
opt = torch.optim.SGD([w], lr=0.1)
opt.zero_grad()
y = (w * 2).tanh()
y.sum().backward()
y.sum().backward()
"""
    plain, seen = both(script(tmp_path, W + ENDING + source))
    assert seen.result == plain
    assert [made(seen.only, node.stack) for node in seen.only.nodes] == ["y.sum()", "(w * 2).tanh()", "w * 2"]
