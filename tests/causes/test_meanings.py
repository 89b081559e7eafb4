"""What a run shows is certain; what its author meant is not, and a sentence about it is no more than likely."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import Program, cause
from seen import Seen, observe

from graphdoc.evidence import Parameter
from graphdoc.finding import Finding
from graphdoc.program.observed import program_of
from graphdoc.program.values_taken_out import plain_number
from graphdoc.story.wording import folded

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

MEMORY = """
class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.writer, self.reader = nn.Linear(3, 4), nn.Linear(4, 1)
        self.memory = torch.zeros(2, 4)

    def forward(self, x):
        out = self.reader(self.memory)
        self.memory = 0.5 * self.memory + self.writer(x).tanh()
        return out


net = Memory()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(5, 2, 3):
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

JUDGES = """
class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.judges = [nn.Linear(3, 5), nn.Linear(5, 5)]
        self.net = nn.Linear(3, 3)

    def forward(self, x):
        h = self.net(x)
        for judge in self.judges:
            h = judge(h).tanh()
        return h.pow(2).mean()


loss = Perceptual()
opt = torch.optim.SGD(loss.net.parameters(), lr=0.1)
for _ in range(12):
    opt.zero_grad()
    loss(torch.randn(8, 3)).backward()
    opt.step()
"""

COPIED = """
net, target = nn.Linear(3, 1), nn.Linear(3, 1)
opt, target_opt = (torch.optim.SGD(n.parameters(), lr=0.05) for n in (net, target))
for step in range(20):
    x = torch.randn(8, 3)
    target_opt.zero_grad()
    target(x).pow(2).mean().backward()
    opt.zero_grad()
    (net(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    opt.step()
    if step % 10 == 9:
        target.load_state_dict(net.state_dict())
"""

IDLE = (
    HEAD
    + """
net = nn.Linear(4, 4)


class Perturb(nn.Module):
    def forward(self, x, noise):
        return net(x)


def distance(x, noise):
    return net(x + noise.detach()).pow(2).mean()


noise = torch.zeros(3, 4, requires_grad=True)
torch.autograd.grad(distance(torch.randn(3, 4), noise), noise)
"""
)


def first(seen: Seen, slug: str) -> Finding:
    assert seen.slugs[:1] == [slug]
    return seen.found[0].finding


def test_a_cut_that_leaves_a_parameter_without_gradient_says_so(tmp_path: Path) -> None:
    finding = first(observe(tmp_path, HEAD + MEMORY), "carried-state")
    effects = [r.note for r in finding.remedies if r.kind == "detach_after"]
    assert effects
    assert all("`net.writer.*` (2 parameters) get none through anything else" in e for e in effects)


def test_what_is_kept_out_of_a_module_may_be_meant_so(tmp_path: Path) -> None:
    finding = first(observe(tmp_path, HEAD + JUDGES), "parameters-never-reached")
    assert finding.confidence == "likely"
    assert "`opt` trains" not in finding.remedies[0].note  # it was given the parameters of another part
    assert "`loss.judges[…].*` (4 parameters)" in finding.title


def test_an_optimizer_that_never_steps_says_nothing_of_who_else_writes(tmp_path: Path) -> None:
    finding = first(observe(tmp_path, HEAD + COPIED), "step-missing")
    assert "initial values" not in finding.title + finding.explanation


def test_a_reason_that_only_the_source_suggests_is_not_certain(tmp_path: Path) -> None:
    handed_on = IDLE.replace("net(x + noise.detach())", "Perturb()(x, noise)")
    assert first(observe(tmp_path, handed_on), "unused-in-graph").confidence == "likely"


def test_values_that_were_seen_to_leave_the_graph_are_the_reason(tmp_path: Path) -> None:
    seen = observe(tmp_path, IDLE)
    assert first(seen, "unused-in-graph").confidence == "certain"
    assert seen.lines("cause") == ["return net(x + noise.detach()).pow(2).mean()"]


@pytest.mark.parametrize(("wrapped", "confidence"), [("DDP(body)", "certain"), ("DDP(nn.Tanh())", "likely")])
def test_a_module_without_parameters_is_not_called_frozen(wrapped: str, confidence: str) -> None:
    program = Program(f"body.requires_grad_(False)\nmodel = {wrapped}\n")
    message = "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
    evidence = program.evidence(
        message, program.at(wrapped), parameters=[Parameter("body.weight", requires_grad=False)]
    )
    found = cause("frozen-parameters").recognise(program_of(evidence))
    assert found is not None
    assert found.confidence == confidence
    assert ("requires_grad=False" in found.explanation) is (confidence == "certain")
    assert (1 in [s.line for s in found.spans]) is (confidence == "certain")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["net.a[0].w", "net.a[1].w"], "`net.a[…].*` (2 parameters)"),
        (["net.a[0].w", "net.a[0].b"], "`net.a[0].*` (2 parameters)"),
        (["net.a[0].w", "net.b.w"], "`net.*` (2 parameters)"),
    ],
)
def test_entries_of_one_list_are_folded_to_that_list(names: list[str], told: str) -> None:
    assert folded(names) == told


@pytest.mark.parametrize(
    ("program", "converted", "starts", "direct"),
    [
        ("loss = f(x).item()\n", [1], [], True),
        ("loss = 0.0\nloss = loss + float(f(x))\n", [2], [], True),
        ("def f(x):\n    return x.item()\nloss = 0.0\nloss += f(x)\n", [4], [], True),
        ("def f(x):\n    y = x + 1\n    return y.item() + y\nloss = 0.0\nloss += f(x)\n", [3], [], False),
        ("loss = 0.0\nfor x in y:\n    loss = loss + f(x)\n", [], [1], False),
        ("loss = 0\nfor x in y:\n    loss = loss + f(x)\n", [], [], False),
        ("loss = f(x)\n", [], [], False),
    ],
)
def test_how_a_name_came_to_hold_a_float(program: str, converted: list[int], starts: list[int], direct: bool) -> None:
    made = Program(program + "loss.backward()\n")
    number = plain_number({"train.py": made.source}, made.at("loss.backward()"), "loss")
    assert ([f.line for f in number.converted], [f.line for f in number.starts]) == (converted, starts)
    assert number.direct is direct
