"""What one trial run records."""

from __future__ import annotations

import pytest
from forked import run_forked
from tracing import traced

from graphdoc.verify.traces import Step, Trace

PROGRAM = """\
import warnings
import torch

net = torch.nn.Linear(2, 1)
unused = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([*net.parameters(), unused], lr=0.5)
for step in range(3):
    optimizer.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
x = torch.ones(3, requires_grad=True)
torch.autograd.grad((x * x).sum(), x)
warnings.warn("mind the gap")
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return traced(tmp_path_factory.mktemp("trace"), PROGRAM, "verify:-1").trace


def test_places_and_kinds_of_calls(trace):
    assert [(c.kind, c.place) for c in trace.calls] == [
        *[("backward", ("train.py", 9))] * 3,
        ("grad", ("train.py", 12)),
    ]
    assert all(c.nodes > 1 and c.measured for c in trace.calls)
    assert trace.ended and trace.total_steps == 3 and trace.total_calls == 4


def test_what_each_call_gave_and_each_step_used(trace):
    # d sum / d weight = 1 for both weights, d sum / d bias = 1
    assert [c.gained for c in trace.backwards] == [{"0.0": 2.0, "0.1": 1.0}] * 3
    assert [s.each for s in trace.steps] == [{"0.0": 2.0, "0.1": 1.0}] * 3
    assert all(s.gradients == 3.0 for s in trace.steps)
    assert trace.calls[-1].sums == [6.0]


def test_names_and_warnings(trace):
    assert trace.names == {"0.0": "net.weight", "0.1": "net.bias", "0.2": "unused"}
    assert trace.optimizers == {0: "SGD"}
    assert trace.warnings == ["mind the gap"]


def test_a_parameter_that_a_patch_makes_shifts_no_other():
    base = Trace(names={"0.0": "net.weight", "0.1": "net.bias"})
    patched = Trace(names={"0.0": "net.scale", "0.1": "net.weight", "0.2": "net.bias"})
    patched.order = [Step(0, 1, 0, 1.0, 6.0, {"0.0": 1.0, "0.1": 2.0, "0.2": 3.0})]
    patched.rekey(base)
    assert patched.steps[0].each == {"0.3": 1.0, "0.0": 2.0, "0.1": 3.0}
    assert patched.names == {"0.3": "net.scale", "0.0": "net.weight", "0.1": "net.bias"}


def test_flows(trace):
    place = ("train.py", 9)
    assert trace.flows() == trace.used() == {(place, "0.0"), (place, "0.1")}
    assert trace.trains() == {place: {0}}


def test_an_optimizer_that_wraps_another_trains_what_that_one_does(tmp_path):
    wrapping = """
class Wrapping(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.inner = torch.optim.SGD(self.param_groups, lr=0.1)

    def second_step(self):
        self.inner.step()


"""
    source = (
        PROGRAM.replace("net = ", wrapping + "net = ", 1)
        .replace("torch.optim.SGD([", "Wrapping([")
        .replace(", lr=0.5", "")
    )
    run = traced(tmp_path, source.replace("    optimizer.step()", "    optimizer.second_step()"), "verify:-1").trace
    (owners,) = run.trains().values()
    assert all(run.holders(key) & owners for _, key in run.flows())


def test_accumulated_gradients_are_told_apart_by_call(tmp_path):
    source = PROGRAM.replace("    optimizer.zero_grad()\n", "").replace("    optimizer.step()\n", "")
    calls = traced(tmp_path, source + "optimizer.step()\n", "verify:-1").trace.backwards
    assert [c.gained for c in calls] == [{"0.0": 2.0, "0.1": 1.0}] * 3
    assert [bool(c.fresh) for c in calls] == [True, False, False]


def test_a_gradient_that_is_cleared_before_the_step_is_not_used(tmp_path):
    source = PROGRAM.replace("    optimizer.step()\n", "    optimizer.zero_grad(); optimizer.step()\n")
    run = traced(tmp_path, source, "verify:-1").trace
    assert run.flows() and not run.used()


@pytest.mark.parametrize("mode", ["verify:-1", "verify:reference:-1"])
def test_the_program_does_not_notice(tmp_path, mode):
    source = "import torch\ntorch.manual_seed(3)\n" + PROGRAM + "print(net.weight.tolist(), torch.rand(1).item())\n"
    observed = traced(tmp_path, source, mode).result
    assert observed.stdout == run_forked(tmp_path / "train.py").stdout != ""
    assert observed.status == 0


def test_a_killed_run_leaves_what_it_had(tmp_path):
    source = PROGRAM.replace("    optimizer.step()\n", "    optimizer.step()\n    if step: import os; os._exit(9)\n")
    run = traced(tmp_path, source, "verify:-1")
    assert run.result.status == 9
    assert len(run.trace.steps) == 2 and not run.trace.ended


def test_what_a_step_with_a_closure_lets_go_of_was_used(tmp_path):
    source = """\
import torch
w = torch.nn.Parameter(torch.ones(3))


class Own(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            closure()
        w.sub_(0.1 * w.grad)
        w.grad = None


optimizer = Own([w], {})
for _ in range(2):
    optimizer.step(lambda: w.square().sum().backward())
"""
    trace = traced(tmp_path, source, "verify").trace
    assert [set(step.each) for step in trace.steps] == [{"0.0"}, {"0.0"}]
