"""A graph that has to stay: the flag goes where the program decides on it, and a call on its way has freed nothing."""

from __future__ import annotations

from pathlib import Path

from seen import observe

ADJOINT = """\
import torch
from torch import nn

torch.manual_seed(0)
encoder, start, drift = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(6, 3)
weights = [*encoder.parameters(), *start.parameters(), *drift.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.1)


def derivative(outputs, inputs, **kwargs):
    return torch.autograd.grad(outputs, inputs, **kwargs)


class Path(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, rhs):
        ctx.rhs, ctx.y = rhs, y.detach()
        return y + 2 * rhs(y).detach()

    @staticmethod
    def backward(ctx, given):
        total = given
        for _ in range(2):
            with torch.enable_grad():
                y = ctx.y.requires_grad_()
                out = ctx.rhs(y)
                step, *_ = derivative(out, [y, *weights], grad_outputs=given, allow_unused=True)
            total = total + step
        return total, None


for _ in range(2):
    context = torch.sigmoid(encoder(torch.randn(4, 2)))
    y = Path.apply(start(torch.randn(4, 2)), lambda y: drift(torch.cat([y, context], dim=1)))
    loss = y.pow(2).mean() + context.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

PATHS = """\
import torch
from torch import nn

torch.manual_seed(0)
body, one, two = nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*body.parameters(), *one.parameters(), *two.parameters()], lr=0.1)


def asked(loss, parameters, keep=None):
    torch.autograd.backward(loss, retain_graph=keep, inputs=parameters)
    given = [p.grad.clone() for p in parameters]
    for p in parameters:
        p.grad = None
    return given


for _ in range(2):
    loss = two(one(torch.tanh(body(torch.randn(4, 2)))).tanh()).pow(2).mean()
    gathered = []
    for net in (one, two):
        gathered.append(asked(loss, list(net.parameters())))
    for net, given in zip((one, two), gathered):
        for p, g in zip(net.parameters(), given):
            p.grad = g
    optimizer.step()
"""


def test_a_call_below_the_one_on_its_way_has_freed_it(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", ADJOINT)
    assert seen.slugs == ["shared-subgraph-losses"]
    assert "two calls in one backward share the graph of `context`" in seen.said
    assert "both losses" not in seen.said
    assert seen.lines("cause")[0].startswith("step, *_ = derivative(")
    kind, texts = seen.patches()[0]
    assert kind == "set_keyword"
    assert "grad_outputs=given, allow_unused=True, retain_graph=True)" in texts["train.py"]
    assert observe(tmp_path / "again", texts["train.py"]).result.status == 0


def test_a_flag_that_has_a_parameter_is_given_by_it(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", PATHS)
    assert seen.slugs == ["repeated-backward"]
    kind, texts = seen.patches()[0]
    assert kind == "set_keyword"
    assert "asked(loss, list(net.parameters()), keep=True)" in texts["train.py"]
    assert seen.found[0].finding.remedies[0].open  # the gradients may be meant to add up
    assert observe(tmp_path / "again", texts["train.py"]).result.status == 0


def test_a_flag_that_the_function_works_out_is_left_alone(tmp_path: Path) -> None:
    code = PATHS.replace("    torch.autograd.backward(loss", "    keep = bool(keep)\n    torch.autograd.backward(loss")
    assert code != PATHS
    seen = observe(tmp_path, code)
    assert seen.slugs == ["repeated-backward"]
    assert not any("keep=True" in text for _, texts in seen.patches() for text in texts.values())


INNER = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(2, 1)
x = torch.randn(4, 2)
loss = net(x).tanh().pow(2).mean()
total = 0
for p in net.parameters():
    given = torch.autograd.grad(loss, {asked})
    total = total + sum(g.sum() for g in given)
"""


def test_the_same_gradient_in_each_round_is_left_open(tmp_path: Path) -> None:
    for asked, same in (("list(net.parameters())", True), ("[p]", False)):
        seen = observe(tmp_path / str(same), INNER.format(asked=asked))
        assert seen.slugs == ["repeated-backward"]
        (kept,) = [r for r in seen.found[0].finding.remedies if r.args.get("name") == "retain_graph"]
        assert bool(kept.open) is same
