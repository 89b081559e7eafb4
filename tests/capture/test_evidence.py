"""What the evidence says of a failure: exact expressions, names, writers and cuts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from corners import FAILING, W
from observed import made, run, script

RECURRENT = """
import torch.nn as nn
class Agent:
    def __init__(self):
        self.cell = nn.GRUCell(4, 4)
        self.hidden = {"h": torch.zeros(1, 4)}
    def act(self, obs):
        self.hidden["h"] = self.cell(obs, self.hidden["h"])
        return self.hidden["h"].sum()
agent = Agent()
opt = torch.optim.SGD(agent.cell.parameters(), lr=0.0)
for _ in range(2):
    loss = agent.act(torch.randn(1, 4)) + agent.act(torch.randn(1, 4)); loss.backward()
"""


def test_a_carried_state_is_found_at_its_expression_and_by_its_name(tmp_path: Path) -> None:
    evidence = run(script(tmp_path, RECURRENT)).only
    assert evidence.raised is not None
    assert made(evidence, evidence.raised.stack) == "loss.backward()"
    carry = evidence.older_edges[0]
    consumer = evidence.node(carry.consumer)
    assert consumer is not None
    assert made(evidence, consumer.stack) == 'self.cell(obs, self.hidden["h"])'
    assert carry.tensor.name in ("agent.hidden['h']", "self.hidden['h']")
    assert carry.freed_by == next(e.index for e in evidence.events if e.kind == "backward")
    assert set(evidence.reaches) == {f"agent.cell.{n}" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}


def test_columns_count_characters(tmp_path: Path) -> None:
    source = 'w = torch.randn(3, requires_grad=True)\nα = "äöü"; y = w.exp(); y += 1\ny.sum().backward()\n'
    evidence = run(script(tmp_path, source)).only
    node = evidence.failing_node
    assert node is not None
    assert made(evidence, node.stack) == "w.exp()"


def test_two_expressions_on_one_line_are_told_apart(tmp_path: Path) -> None:
    source = (
        W + "f, g = (lambda x: x.exp()), (lambda x: x.exp())\na = f(w); b = g(w); b += 1\n(a + b).sum().backward()\n"
    )
    evidence = run(script(tmp_path, source)).only
    node = evidence.failing_node
    assert node is not None
    assert node.stack[-1].column == source.splitlines()[1].rindex("x.exp()") + 1


WRITES = {
    "operator": ("y = w.exp()\ny += 1\ny.sum().backward()", "y += 1"),
    "method": ("y = w.exp()\ny.relu_()\ny.sum().backward()", "y.relu_()"),
    "slice": ("y = w.exp()\ny[0] = 1.0\ny.sum().backward()", "y[0] = 1.0"),
    "out": (
        "y = w.exp()\nwith torch.no_grad():\n    torch.add(y, 1, out=y)\ny.sum().backward()",
        "torch.add(y, 1, out=y)",
    ),
    "view": ("y = w.exp()\nv = y.view(3, 1)\nv.mul_(2)\ny.sum().backward()", "v.mul_(2)"),
    "module": ("y = w.exp()\ntorch.nn.ReLU(inplace=True)(y)\ny.sum().backward()", "torch.nn.ReLU(inplace=True)(y)"),
    "callee": ("def add(t):\n    t += 1\ny = w.exp()\nadd(y)\ny.sum().backward()", "t += 1"),
    "masked": ("y = w.exp()\ny.masked_fill_(y > 1, 0)\ny.sum().backward()", "y.masked_fill_(y > 1, 0)"),
    "no-grad": ("y = w.exp()\nwith torch.no_grad():\n    y.zero_()\ny.sum().backward()", "y.zero_()"),
    "hook": (
        "y = w.exp()\ny.register_hook(lambda g: y.detach().add_(1) * 0 + g)\ny.sum().backward()",
        "y.detach().add_(1)",
    ),
    "step": (
        "opt = torch.optim.SGD([w], lr=1)\ny = (w * w).sum()\nw.grad = torch.ones(3)\nopt.step()\ny.backward()",
        "opt.step()",
    ),
    "load": (
        "m = torch.nn.Linear(3, 3)\ny = m(m(w)).sum()\nm.load_state_dict(m.state_dict())\ny.backward()",
        "m.load_state_dict(m.state_dict())",
    ),
    "max-norm": (
        "e = torch.nn.Embedding(4, 3, max_norm=0.1)\ny = (e.weight * w).sum()\ne(torch.tensor([1]))\ny.backward()",
        "e(torch.tensor([1]))",
    ),
}


@pytest.mark.breadth(6)
@pytest.mark.parametrize("name", WRITES)
def test_the_writer_is_found(name: str, tmp_path: Path) -> None:
    source, line = WRITES[name]
    evidence = run(script(tmp_path, W + source + "\n"), mode="probe:writes").only
    assert evidence.probe == "probe:writes"
    writes = [made(evidence, w.stack) for s in evidence.stale for w in s.writes]
    assert any(w and w in line for w in writes), writes
    assert all(w.certain for s in evidence.stale for w in s.writes)


M = "m = torch.nn.Linear(3, 3)\nx = torch.randn(2, 3)\n"

CUTS = {
    "item": ("loss = torch.tensor([m(x).mean().item()])", "conversion", "m(x).mean().item()"),
    "tensor": ("loss = torch.tensor([m(x).mean()]).sum()", "conversion", "torch.tensor([m(x).mean()])"),
    "numpy": ("loss = torch.from_numpy(m(x).detach().numpy()).sum()", "detach", "m(x).detach()"),
    "detach": ("y = m(x)\nloss = (y.detach() - 1).mean()", "detach", "y.detach()"),
    "data": ("y = m(x)\nloss = y.data.mean()", "detach", "y.data"),
    "numpy-arithmetic": ("loss = torch.from_numpy(m(x).detach().numpy() * 2).sum()", "detach", "m(x).detach()"),
    "argmax": ("loss = m(x).argmax(1).float().mean()", "nondifferentiable", "m(x).argmax(1)"),
    "compare": ("loss = (m(x) > 0).float().mean()", "nondifferentiable", "m(x) > 0"),
    "cast": ("loss = m(x).long().sum().float()", "nondifferentiable", "m(x).long()"),
    "sample": (
        "d = torch.distributions.Normal(m(x), 1.0)\nloss = d.sample().mean()",
        "nondifferentiable",
        "d.sample()",
    ),
    "block": ("with torch.no_grad():\n    loss = m(x).mean()", "no-grad", "m(x)"),
    "call": ("torch.set_grad_enabled(False)\nloss = m(x).mean()", "no-grad", "m(x)"),
    "frozen": ("m.requires_grad_(False)\nloss = m(x).mean()", "frozen", "m(x)"),
    "constant": ("loss = torch.tensor(0.0)\nloss = loss * 2", "constant", "torch.tensor(0.0)"),
    "gradient": (
        "x.requires_grad_()\ng, = torch.autograd.grad(m(x).sum(), x)\nloss = g.norm()",
        "missing-create-graph",
        "torch.autograd.grad(m(x).sum(), x)",
    ),
}


@pytest.mark.breadth(7)
@pytest.mark.parametrize("name", CUTS)
def test_the_cut_is_found(name: str, tmp_path: Path) -> None:
    source, reason, expression = CUTS[name]
    evidence = run(script(tmp_path, M + source + "\nloss.backward()\n"), mode="probe:cuts").only
    found = [(c.reason, made(evidence, c.stack)) for c in evidence.cuts]
    assert (reason, expression) in found, found


def test_numbers_that_went_through_python_are_candidates_only(tmp_path: Path) -> None:
    source = M + "total = 0.0\nfor _ in range(3):\n    total += m(x).mean().item()\ntorch.tensor(total).backward()\n"
    cuts = run(script(tmp_path, source), mode="probe:cuts").only.cuts
    assert [(c.reason, c.certain) for c in cuts] == [("conversion", False)]


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("source", "line", "kind"),
    [
        ("with torch.no_grad():\n    loss = m(x).mean()", "with torch.no_grad():", "no_grad"),
        ("@torch.no_grad()\ndef f():\n    return m(x).mean()\nloss = f()", "@torch.no_grad()", "no_grad"),
        ("torch.set_grad_enabled(False)\nloss = m(x).sum()", "torch.set_grad_enabled(False)", "set_grad_enabled"),
        (
            "with torch.no_grad():\n    pass\nwith torch.inference_mode():\n    loss = m(x).mean()",
            "with torch.inference_mode():",
            "inference_mode",
        ),
    ],
)
def test_the_switch_is_found(source: str, line: str, kind: str, tmp_path: Path) -> None:
    evidence = run(script(tmp_path, M + source + "\nloss.backward()\n"), mode="probe:cuts").only
    cut = next(c for c in evidence.cuts if c.reason == "no-grad")
    place = [f for f in cut.switch if f.user][-1]
    assert evidence.sources[place.file].splitlines()[place.line - 1] == line
    assert cut.switch_kind == kind


def test_a_failure_inside_a_custom_function_is_told_once_and_as_uncaught(tmp_path: Path) -> None:
    evidence = run(script(tmp_path, FAILING["in-custom-backward"])).only
    assert evidence.raised is not None
    assert made(evidence, evidence.raised.stack) == "z.backward()"


def test_a_caught_failure_is_told_as_caught(tmp_path: Path) -> None:
    source = W + "y = w.tanh().sum()\ny.backward()\ntry:\n    y.backward()\nexcept RuntimeError:\n    pass\n"
    evidence = run(script(tmp_path, source)).only
    assert evidence.raised is not None
    assert not evidence.raised.uncaught


def test_without_the_stand_in_the_node_hook_or_anomaly_modes_own_text_is_read(tmp_path: Path) -> None:
    source = """
from graphdoc import capture
from graphdoc.capture.places import stacks
capture._installed.undo()
stacks.stand_in = lambda torch: lambda: None
capture._installed = None
capture.install(sys.argv[1])
y = w.exp()
y += 1
y.sum().backward()
"""
    out = tmp_path / "text"
    out.mkdir()
    evidence = run(script(tmp_path, W + "import sys\n" + source), (str(out),), out=out).only
    # PyTorch 2.14 and later have the hook.
    assert evidence.capture == ("node-hook" if hasattr(torch.autograd.graph, "node_creation_hook") else "anomaly")
    assert [(n.op, n.stack[-1].line) for n in evidence.nodes if n.state == "stale"] == [("ExpBackward0", 12)]


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("first", "last"), [(1, 3), (700, 703), (100, 703)])
def test_a_node_is_told_with_its_iteration(first: int, last: int, tmp_path: Path) -> None:
    source = f"""
kept = None
for i in range({last} + 1):
    y = w.exp()
    if i == {first}:
        kept = y
    loss = (y + kept).sum() if i == {last} else y.sum()
    loss.backward()
"""
    evidence = run(script(tmp_path, W + source)).only
    found = {n.iteration for n in evidence.nodes if n.op == "ExpBackward0"}
    # The journal keeps the first calls of a place and the latest; between them it does not guess.
    assert found == ({first} if first != 100 else {-1})
    root = evidence.node(evidence.root)
    assert root is not None
    assert root.iteration == last


def test_a_node_whose_stack_the_users_anomaly_mode_must_not_print_is_still_told_with_it(tmp_path: Path) -> None:
    source = "y = w.exp()\ny += 1\nwith torch.autograd.detect_anomaly():\n    y.sum().backward()\n"
    path = script(tmp_path, W + source)
    seen = run(path)
    failing = seen.only.nodes[seen.only.failing]
    assert (failing.op, failing.state) == ("ExpBackward0", "stale")
    assert path.read_text().splitlines()[failing.stack[-1].line - 1] == "y = w.exp()"
    assert "No forward pass information" in seen.result.stderr
