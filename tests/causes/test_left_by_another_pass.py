"""What one loss leaves on an object, and the next pass takes beside what it computes anew; a Function that is there for
the gradient alone; and a helper whose result is a target, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
"""
TEACH = """
class Trainer:
    def __init__(self):
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
        self.{kept}

    def teach(self, x, y):
        logits = net(x)
        self.{keep}
        F.cross_entropy(logits, y).backward()

    def learn(self, x):
        log = F.log_softmax(net(x + 0.1), 1)
        loss = -({read} * log).sum(1).mean()
        loss.backward()


trainer = Trainer()
for _ in range(3):
    x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
    trainer.opt.zero_grad()
    trainer.teach(x, y)
    trainer.learn(x)
    trainer.opt.step()
"""
ATTRIBUTE = TEACH.format(kept="soft = None", keep="soft = F.softmax(logits, 1)", read="self.soft")
ENTRY = TEACH.format(kept="soft = {}", keep='soft["top"] = F.softmax(logits, 1)', read='self.soft["top"]')
HOOK = """
class Store:
    def __init__(self):
        self.outputs = {"net": []}
        self.on = True
        net.register_forward_hook(self.hook)

    def hook(self, module, given, result):
        if self.on:
            self.outputs["net"].append(result)

    def take(self):
        return self.outputs["net"][0]


store = Store()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
    opt.zero_grad()
    store.outputs["net"].clear()
    store.on = True
    F.cross_entropy(net(x), y).backward()
    store.on = False
    loss = -(F.softmax(store.take(), 1) * F.log_softmax(net(x + 0.1), 1)).sum(1).mean()
    loss.backward()
    opt.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("code", "line"),
    [
        (ATTRIBUTE, "self.soft = F.softmax(logits, 1).detach()"),
        (ENTRY, 'self.soft["top"] = F.softmax(logits, 1).detach()'),
        (HOOK, 'self.outputs["net"].append(result.detach())'),
    ],
    ids=["attribute", "entry", "hook"],
)
def test_what_another_pass_has_left_is_data(code: str, line: str, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + code)
    assert seen.slugs == ["stored-with-graph"]
    finding = seen.found[0].finding
    assert finding.confidence == "likely" and "computes again with the same parameters" in finding.explanation
    new = seen.patches()[0][1]["train.py"]
    assert line in new
    assert observe(tmp_path / "mended", new).mended
    # That it is to learn through both is possible: then the graph is kept, and no run tells which was meant.
    kept = [r for r in finding.remedies if r.args.get("name") == "retain_graph"]
    assert all(r.open and r.safety == "unsafe" for r in kept)


def test_what_only_the_other_pass_computes_is_shared(tmp_path: Path) -> None:
    code = ATTRIBUTE.replace("net(x + 0.1)", "net[2](torch.randn(5, 8))")
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "shared-subgraph-losses"


REVERSED = """
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return {forward}

    @staticmethod
    def backward(ctx, grad):
        return -0.3 * grad


side = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters())
side_opt = torch.optim.Adam(side.parameters())
for _ in range(3):
    f = net(torch.randn(5, 4))
    fit = F.cross_entropy(f, torch.randint(0, 3, (5,)))
    confuse = side(Reverse.apply(f)).sigmoid().mean()
    opt.zero_grad()
    fit.backward()
    opt.step()
    side_opt.zero_grad()
    confuse.backward()
    side_opt.step()
"""


@pytest.mark.parametrize(
    ("forward", "slug"),
    [("x.view_as(x)", "shared-subgraph-losses"), ("x * 1.0", "shared-subgraph-losses"), ("-x", "undetached-target")],
)
def test_a_gradient_that_is_reversed_is_meant_to_go_through(forward: str, slug: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + REVERSED.format(forward=forward))
    assert seen.slugs[0] == slug


VALUES = """
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def values(s):
    return net(s).detach()


s = torch.randn(5, 4)
target = {target}
loss = F.mse_loss(values(s), target)
loss.backward()
"""


@pytest.mark.parametrize(("target", "left"), [("values(s + 1)", "`values` is called at 2 places"), ("s[:, :3]", "")])
def test_a_detach_in_a_helper_that_makes_the_target_too_may_be_meant(target: str, left: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + VALUES.format(target=target))
    assert seen.slugs[0] == "cut-by-detach"
    [remedy] = [r for r in seen.found[0].finding.remedies if r.kind == "drop_call"]
    assert remedy.open.startswith(left) and bool(remedy.open) == bool(left)


TYPO = """
made, judge = nn.Linear(4, 4), nn.Linear(4, 1)
made_opt = torch.optim.SGD(made.parameters(), lr=0.1)
judge_opt = torch.optim.SGD(judge.parameters(), lr=0.1)
for _ in range(2):
    judge_opt.zero_grad()
    z = torch.randn(5, 4)
    fake = made(z).tanh()
    loss = (judge(fake) - judge(torch.randn(5, 4))).mean()
    loss.backward()
    told = loss * 2
    judge_opt.step()
    made_opt.zero_grad()
    z = torch.randn(5, 4)
    made_now = made(z).tanh()
    fooled = -judge({taken}).sigmoid().mean()
    fooled.backward()
    made_opt.step()
"""


def test_a_newer_value_that_nothing_reads_was_meant(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + TYPO.format(taken="fake"))
    assert seen.slugs[0] == "undetached-target"
    finding = seen.found[0].finding
    assert finding.confidence == "likely"
    assert any("nothing reads `made_now`" in s.label for s in finding.spans if s.role == "cause")
    assert seen.lines("cause")[0] == "fooled = -judge(fake).sigmoid().mean()"
    new = seen.patches()[0][1]["train.py"]
    assert "fooled = -judge(made_now).sigmoid().mean()" in new
    assert observe(tmp_path / "mended", new).mended
