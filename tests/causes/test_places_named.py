"""The place that a report sends to is the one that the run or the source proves: no namesake, no neighbour."""

from __future__ import annotations

from pathlib import Path

from seen import Seen, observe

from graphdoc.fixes.kinds import build
from graphdoc.source.module import Source

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

OWN_LOSS = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    first = net(torch.randn(4, 3)).pow(2).mean()
    first.backward()
    second = 1.0 - first * 0.5
    second.backward()
    opt.step()
    opt.zero_grad()
"""

TWO_FUNCTIONS = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x, n)
        return x**n

    @staticmethod
    def backward(ctx, g):
        x, n = ctx.saved_tensors
        return g * n * x ** (n - 1), None


Power.apply(Scale.apply(torch.randn(3, requires_grad=True)), 2).sum().backward()
"""

TWO_RETURNS = """
class Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, flag):
        ctx.flag = flag
        return x.sum(0) if flag else x * 2

    @staticmethod
    def backward(ctx, g):
        if not ctx.flag:
            return g * 2, None
        return g, None


Pick.apply(torch.randn(4, 3, requires_grad=True), True).sum().backward()
"""

OTHERS_FROZEN = """
teacher, student, extra = nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(2, 2)
for p in teacher.parameters():
    p.requires_grad_(False)
extra.requires_grad_(False)
student.requires_grad_(False)
student(torch.randn(4, 3)).pow(2).mean().backward()
"""

CONTAINER = """
import copy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x):
        self.rows = len(x)
        self.shape = x.shape
        h = self.lin(x)
        self.extra = {"h": [h]}
        return h


net = Net()
net(torch.randn(4, 3))
copy.deepcopy(net)
"""

TWO_GRADIENTS = """
a, b = nn.Linear(3, 1), nn.Linear(1, 1)
(a(torch.randn(4, 3)) ** 2).mean().backward()
kept = [p.grad.clone() for p in a.parameters()]
(b(torch.ones(1, 1)) ** 2).sum().backward()
sum(g.pow(2).sum() for g in kept).backward()
"""

NO_ITERATION = """
net = nn.Linear(3, 1)
total = 0
for x in []:
    total = total + net(x).sum()
total.backward()
"""

EXPANDED = """
y = torch.zeros(1, 3).expand(4, 3)
y += 1.0
"""

COUNTED_OUTSIDE = """
from torch.utils.checkpoint import checkpoint

SETTINGS = {"deep": True}


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.lin = 0, nn.Linear(3, 1)

    def forward(self, x):
        self.calls += 1
        return self.lin(x)


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        h = self.lin(x)
        if SETTINGS["deep"]:
            h = torch.tanh(self.lin(h))
        SETTINGS["deep"] = not SETTINGS["deep"]
        return h


head, body = Head(), Body()
head(checkpoint(body, torch.randn(4, 3), use_reentrant=False)).sum().backward()
"""

COUNTED_INSIDE = """
from torch.utils.checkpoint import checkpoint


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.lin = 0, nn.Linear(3, 3)

    def forward(self, x):
        self.calls += 1
        h = self.lin(x)
        return torch.tanh(self.lin(h)) if self.calls == 1 else h


body = Body()
checkpoint(body, torch.randn(4, 3), use_reentrant=False).sum().backward()
"""


IDLE = """
net = nn.Linear(3, 1)


def model(x, noise):
    return net(x.detach())


x, noise = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
torch.autograd.grad(model(x, noise).sum(), [x])
"""

OTHER_STEP = """
a, b = nn.Linear(3, 1), nn.Linear(3, 1)
opt = torch.optim.SGD(a.parameters(), lr=0.1)


def go(x):
    a(x).sum().backward()
    opt.step()
    out = a(x).sum()
    return torch.autograd.grad(out, list(b.parameters()))


go(torch.randn(4, 3))
"""

UPDATE = """
w = torch.randn(3, requires_grad=True)
for _ in range(3):
    (w**2).sum().backward()
    w = w - 0.1 * w.grad
"""

FUNCTION = """
net = nn.Linear(3, 3)
h = torch.sigmoid(net(torch.randn(4, 3)))
torch.nn.functional.relu_(h)
h.sum().backward()
"""

SCALED_BY_THE_LAST = """
net, loss = nn.Linear(3, 1), torch.tensor(1.0)
for _ in range(3):
    loss = net(torch.randn(4, 3)).pow(2).mean() * loss.sqrt()
    loss.backward()
"""

SUMMED_BEHIND = """
net, total = nn.Linear(3, 1), 0
for _ in range(3):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    total = total + loss
total.backward()
"""


def seen(tmp_path: Path, program: str) -> Seen:
    found = observe(tmp_path, HEAD + program)
    assert found.found
    return found


def title(found: Seen) -> str:
    return found.found[0].finding.title


def test_a_loss_computed_from_another_is_no_sum_over_the_iterations(tmp_path: Path) -> None:
    found = seen(tmp_path, OWN_LOSS)
    assert found.slugs[0] == "shared-subgraph-losses"
    assert "accumulated-loss" not in found.slugs


def test_the_function_that_was_applied_is_told_and_not_the_first_in_the_file(tmp_path: Path) -> None:
    found = seen(tmp_path, TWO_FUNCTIONS)
    assert found.lines("cause") == ["ctx.save_for_backward(x, n)"]
    assert "`Power`" in title(found)


def test_of_two_returns_neither_is_called_the_wrong_one(tmp_path: Path) -> None:
    found = seen(tmp_path, TWO_RETURNS)
    labels = {s.label for s in found.found[0].finding.spans if s.role == "cause"}
    assert labels == {"the gradients may come from here"}


def test_of_several_frozen_networks_that_of_the_loss_is_told(tmp_path: Path) -> None:
    found = seen(tmp_path, OTHERS_FROZEN)
    assert found.lines("cause")[0] == "student.requires_grad_(False)"
    assert not {"extra.requires_grad_(False)", "p.requires_grad_(False)"} & {*found.lines("cause")}
    assert "`student.*`" in title(found)


def test_what_deepcopy_met_is_named_with_the_statement_that_keeps_it(tmp_path: Path) -> None:
    found = seen(tmp_path, CONTAINER)
    assert found.lines("cause") == ['self.extra = {"h": [h]}']
    assert "`net.extra['h'][0]`" in title(found)
    assert not found.found[0].finding.remedies  # a dictionary has no detach()


def test_a_gradient_is_of_the_backward_that_reaches_its_parameter(tmp_path: Path) -> None:
    found = seen(tmp_path, TWO_GRADIENTS)
    assert found.slugs[0] == "missing-create-graph"
    assert found.lines("cause") == ["(a(torch.randn(4, 3)) ** 2).mean().backward()"]


def test_a_loss_that_stayed_a_number_is_told_where_it_starts(tmp_path: Path) -> None:
    assert seen(tmp_path, NO_ITERATION).lines("cause") == ["total = 0"]


def test_an_expanded_tensor_is_not_told_to_be_untracked(tmp_path: Path) -> None:
    assert "autograd does not track" not in title(seen(tmp_path, EXPANDED))


def test_state_outside_of_a_checkpoint_is_no_cause_of_its_mismatch(tmp_path: Path) -> None:
    found = seen(tmp_path, COUNTED_OUTSIDE)
    assert found.slugs[0] == "checkpoint-mismatch"
    assert "self.calls += 1" not in found.lines("cause")
    assert "`body`" in title(found)
    assert "self.calls += 1" in seen(tmp_path / "inside", COUNTED_INSIDE).lines("cause")


def test_an_argument_that_is_idle_is_told_where_it_was_given_the_input(tmp_path: Path) -> None:
    assert not any("never used" in s.label for s in seen(tmp_path, IDLE).found[0].finding.spans)


def test_a_step_of_other_parameters_is_no_reason(tmp_path: Path) -> None:
    found = seen(tmp_path, OTHER_STEP)
    assert "opt.step()" not in found.lines("cause")
    assert "has stepped" not in found.found[0].finding.explanation


def test_a_name_bound_anew_by_the_line_that_fails(tmp_path: Path) -> None:
    found = seen(tmp_path, UPDATE)
    assert found.slugs[0] == "non-leaf-parameter"
    assert found.lines("cause") == ["w = w - 0.1 * w.grad"]


def test_a_function_of_a_module_writes_into_its_argument(tmp_path: Path) -> None:
    found = seen(tmp_path, FUNCTION)
    assert found.slugs[0] == "inplace-on-saved-activation"
    assert "torch.nn" not in title(found)


def test_a_product_with_the_last_loss_is_no_sum(tmp_path: Path) -> None:
    found = seen(tmp_path, SCALED_BY_THE_LAST)
    assert found.slugs[0] == "carried-state"


def test_a_sum_behind_the_loop_is_called_by_its_own_name(tmp_path: Path) -> None:
    found = seen(tmp_path, SUMMED_BEHIND)
    assert found.slugs[0] == "accumulated-loss"
    assert "`total` still contains losses" in title(found)
    assert [r.kind for r in found.found[0].finding.remedies] == ["delete_statement"]


HEADS = """
core, actor, critic = nn.Sequential(nn.Linear(4, 6), nn.Tanh()), nn.Linear(6, 2), nn.Linear(6, 1)
critic_opt = torch.optim.Adam([*core.parameters(), *critic.parameters()])
actor_opt = torch.optim.Adam([*core.parameters(), *actor.parameters()])
for _ in range(3):
    z = core(torch.randn(8, 4))
    choice = actor(z)
    critic_opt.zero_grad()
    critic(z).square().mean().backward()
    critic_opt.step()
    actor_opt.zero_grad()
    choice.tanh().mean().backward()
    actor_opt.step()
"""


def test_what_two_losses_share_is_told_where_both_come_through(tmp_path: Path) -> None:
    """The older part of the second loss begins at the actor's own layer, which the first loss never passes."""
    seen = observe(tmp_path, HEAD + HEADS)
    assert seen.slugs[0] == "shared-subgraph-losses"
    assert seen.lines("cause")[0] == "z = core(torch.randn(8, 4))"


HISTORY = """
import numpy as np
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
history = []
for epoch in range(3):
    loss = net(torch.randn(4, 3)).square().mean()
    history.append([epoch, loss])
    opt.zero_grad()
    loss.backward()
    opt.step()
table = np.array(history)
"""


def test_entries_lose_their_graph_where_they_are_put_in(tmp_path: Path) -> None:
    """A list has no ``detach``, and its entries hold numbers beside the tensors."""
    seen = observe(tmp_path, HEAD + HISTORY)
    assert seen.slugs[0] == "numpy-on-grad-tensor"
    (remedy,) = seen.found[0].finding.remedies
    assert remedy.title.startswith("detach what goes into `history`")
    (text,) = build(remedy.kind, {"train.py": Source("train.py", HEAD + HISTORY)}, remedy.args).values()
    assert "history.append([epoch, loss.detach()])" in text
    assert observe(tmp_path / "mended", text).mended


NOISE = """
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(2))
        self.register_buffer("of_weight", torch.zeros(2, 3))
        self.register_buffer("of_bias", torch.zeros(2))
    def forward(self, x):
        self.of_weight.normal_()
        self.of_bias.normal_()
        return nn.functional.linear(x, self.weight * self.of_weight, self.bias * self.of_bias)


net = Noisy()
loss = net(torch.randn(4, 3)).sum() + net(torch.randn(4, 3)).sum()
loss.backward()
"""


def test_each_write_is_told_with_what_it_writes(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + NOISE)
    assert seen.slugs[0] == "buffer-updated-in-place"
    lines = (HEAD + NOISE).splitlines()
    told = {lines[s.line - 1].strip(): s.label for s in seen.found[0].finding.spans if "updates" in s.label}
    assert told["self.of_weight.normal_()"] == "`normal_()` updates `net.of_weight` in place"
    assert told["self.of_bias.normal_()"] == "`normal_()` updates `net.of_bias` in place"
