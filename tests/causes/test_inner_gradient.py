"""An inner ``autograd.grad`` that frees what the outer loss needs: keep its graph, or give its result one."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import Seen, observe

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
params = list(net.parameters())


def run(x, weights):
    return torch.tanh(x @ weights[0].T + weights[1]) @ weights[2].T + weights[3]


"""

# The inner step's result is what the loss is evaluated with, through a return and a tuple.
INNER_STEP = """
def adapt(x):
    support = run(x, params).square().mean()
    grads = torch.autograd.grad(support, params)
    return [p - 0.1 * g for p, g in zip(params, grads)], support


for _ in range(2):
    total = 0.0
    for _ in range(2):
        fast, support = adapt(torch.randn(5, 3))
        total = total + run(torch.randn(5, 3), fast).square().mean() + 0.3 * support
    opt.zero_grad()
    total.backward()
    opt.step()
"""

# The gradient is only measured: its norm, as a number or as the weight of a term.
MEASURED = """
for _ in range(2):
    fit = run(torch.randn(5, 3), params).square().mean()
    size = torch.autograd.grad(fit, params[2])[0].norm().item()
    opt.zero_grad()
    (fit / (1 + size)).backward()
    opt.step()
"""
SCALED = """
for _ in range(2):
    out = run(torch.randn(5, 3), params)
    fit, spread = out.square().mean(), out.var()
    size = torch.autograd.grad(fit, params[2])[0].norm()
    share = size / (1 + size)
    opt.zero_grad()
    (fit + share * spread).backward()
    opt.step()
"""
SAME = """
for _ in range(2):
    loss = run(torch.randn(5, 3), params).square().mean()
    torch.autograd.grad(loss, params[2])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
# The gradient is a part of what the loss is built on, beside other parts of the same graph.
BUILT_ON = """
class Spring(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = net

    def pull(self, height, x):
        {force} = torch.autograd.grad(height.sum(), x){rest}
        return -force

    def forward(self, x):
        for _ in range(2):
            height = self.energy(x)
            x = x - 0.1 * height + self.pull(height, x){read}
        return x


spring = Spring()
for _ in range(2):
    end = spring(torch.randn(5, 3).requires_grad_())
    opt.zero_grad()
    end.square().mean().backward()
    opt.step()
"""
# A trace along a direction that was drawn, in one of two results; and descent along a learned energy, from zeros.
TRACE = """
flow = nn.Linear(3, 3)
opt.add_param_group({"params": flow.parameters()})


def along(x):
    to, out = torch.randn_like(x), flow(x).tanh()
    back = torch.autograd.grad((out * to).sum(), x)[0]
    return out, (back * to).sum(1)


for _ in range(2):
    out, trace = along(torch.randn(5, 3, requires_grad=True))
    opt.zero_grad()
    (out.square().sum(1) + trace).mean().backward()
    opt.step()
"""
DESCENT = """
def settle(x):
    z, spent = torch.zeros(len(x), 3, requires_grad=True), 0.0
    for _ in range(2):
        level = run(x + z, params).sum()
        pull, = torch.autograd.grad(level, z)
        z, spent = z - 0.1 * pull, spent + level
    return z, spent


for _ in range(2):
    x = torch.randn(5, 3)
    z, spent = settle(x)
    opt.zero_grad()
    ((z.tanh() - x).square().mean() + 0.01 * spent).backward()
    opt.step()
"""
# Other programs that differentiate twice: no inner gradient.
TWO_CALLS = """
for _ in range(2):
    loss = run(torch.randn(5, 3), params).square().mean()
    opt.zero_grad()
    loss.backward()
    loss.backward()
    opt.step()
"""
STEPPED = """
fit = run(torch.randn(5, 3), params).square().mean()
for _ in range(2):
    grads = torch.autograd.grad(fit, params)
    for p, g in zip(params, grads):
        p.grad = g
    opt.step()
"""


def offered(seen: Seen) -> list[tuple[str, str]]:
    """Kind and the changed lines of each fix of the first finding."""
    assert seen.evidence is not None
    old = set(seen.evidence.sources["train.py"].splitlines())
    return [
        (kind, "; ".join(line.strip() for line in text.splitlines() if line not in old))
        for kind, new in seen.patches()
        for text in new.values()
    ]


def test_the_result_of_an_inner_step_may_have_a_graph_or_stay_a_number(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + INNER_STEP)
    assert seen.slugs[0] == "repeated-backward" and seen.found[0].finding.confidence == "certain"
    assert "grads = torch.autograd.grad(support, params)" in seen.lines("cause")
    call = "grads = torch.autograd.grad(support, params, {}=True)"
    assert offered(seen) == [
        ("set_keyword", call.format("retain_graph")),
        ("set_keyword", call.format("create_graph")),
    ]
    assert [bool(r.open) for r in seen.found[0].finding.remedies] == [False, True]
    assert "add the losses" not in seen.found[0].finding.explanation
    for _, new in seen.patches():
        assert observe(tmp_path / str(len(list(tmp_path.iterdir()))), new["train.py"]).mended


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("force", "rest"), [("force", "[0]"), ("force,", "")])
def test_a_gradient_that_the_loss_is_built_on_is_to_have_a_graph(force: str, rest: str, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + BUILT_ON.format(force=force, rest=rest, read=""))
    assert seen.slugs == ["missing-create-graph"]
    assert [line.rpartition(", ")[2] for _, line in offered(seen)] == [
        f"create_graph=True){rest}",
        f"retain_graph=True){rest}",
    ]
    assert [r.safety for r in seen.found[0].finding.remedies] == ["unsafe", "unsafe"]
    assert all(observe(tmp_path / str(n), new["train.py"]).mended for n, (_, new) in enumerate(seen.patches()))


@pytest.mark.breadth(1)
@pytest.mark.parametrize("code", [TRACE, DESCENT], ids=["trace", "descent"])
def test_what_is_differentiated_for_it_and_where_it_begins_are_no_matter(code: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs == ["missing-create-graph"] and "create_graph=True" in offered(seen)[0][1]


def test_a_gradient_that_the_loss_takes_as_a_constant_needs_none(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + BUILT_ON.format(force="force", rest="[0]", read=".detach()"))
    assert "missing-create-graph" not in seen.slugs
    assert ["retain_graph=True" in line for _, line in offered(seen)] == [True]
    assert not seen.found[0].finding.remedies[0].open  # the source shows that no second order is meant


@pytest.mark.breadth(1)
@pytest.mark.parametrize("code", [MEASURED, SCALED, SAME], ids=["number", "weight", "nothing"])
def test_a_gradient_that_is_only_looked_at_stays_a_number(code: str, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + code)
    assert [kind for kind, _ in offered(seen)] == ["set_keyword"], seen.slugs
    mended = seen.patches()[0][1]["train.py"]
    assert observe(tmp_path / "mended", mended).mended


def test_two_backward_calls_are_no_inner_gradient(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + TWO_CALLS)
    assert seen.slugs[0] == "repeated-backward"
    assert "set_keyword" not in {kind for kind, _ in offered(seen)}


def test_with_a_step_between_the_result_is_computed_again(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + STEPPED)
    kinds = [kind for kind, _ in offered(seen)]
    assert kinds == ["move_into_loop"], seen.slugs
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended


# A flag that says which copies of the weights an inner step changes; the outer loss trains what lies behind all.
MARKED = """
for _ in range(2):
    fast = {n: p.clone() for n, p in net.named_parameters()}
    for name, weight in fast.items():
        if name.startswith("0."):
            weight.requires_grad = False
    tuned = {read}
    x = torch.randn(5, 3)
    fit = torch.func.functional_call(net, fast, (x,)).square().mean()
    slopes = torch.autograd.grad(fit, [fast[n] for n in tuned], create_graph=True)
    fast.update({n: fast[n] - 0.1 * s for n, s in zip(tuned, slopes)})
    opt.zero_grad()
    torch.func.functional_call(net, fast, (x,)).square().mean().backward()
    opt.step()
"""


def test_a_flag_that_marks_copies_of_trained_weights_is_no_advice_to_detach(tmp_path: Path) -> None:
    for name, read in (("asked", "[n for n, w in fast.items() if w.requires_grad]"), ("unasked", "[*fast][2:]")):
        seen = observe(tmp_path / name, HEAD + MARKED.replace("{read}", read))
        told = seen.found[0].finding.explanation
        assert seen.slugs == ["requires-grad-on-non-leaf"] and not seen.patches()
        assert "no gradient goes through it to `net.0.weight`, held by `opt`" in told
        assert ("To freeze a module" in told) is (name == "unasked")
