"""What loses a graph without an error: a covered loss, a term without graph, parameters that a conversion cuts off."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seen import observe

START = """\
import torch
from torch import nn

torch.manual_seed(0)
net, head = nn.Linear(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for x in torch.randn(6, 8, 3):
"""
END = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SICK = {
    "covered": ("cut-by-detach", "    loss = head(net(x)).data.pow(2).mean()\n    loss.requires_grad_()\n"),
    "for tensors alone": (
        "cut-by-detach",
        "    y = head(net(x))\n    seen = net(x)\n"
        "    if isinstance(seen, torch.Tensor):\n        seen = seen.detach()\n"
        "    loss = y.pow(2).mean() + seen.abs().mean()\n",
    ),
    "in place": (
        "cut-by-detach",
        "    loss = head(net(x)).pow(2).mean()\n    loss = loss.detach_().requires_grad_(True)\n",
    ),
    "wrapped": (
        "cut-by-conversion",
        "    loss = torch.tensor(head(net(x)).tolist()).pow(2).mean()\n    loss.requires_grad = True\n",
    ),
    "term": (
        "cut-by-conversion",
        "    terms = [p.abs().sum() for p in net.parameters()]\n"
        "    size = torch.tensor(terms).mean()\n"
        "    loss = head(net(x)).pow(2).mean() + 0.1 * size\n",
    ),
    "data": ("cut-by-detach", "    size = net.weight.data.abs().sum()\n    loss = head(net(x)).pow(2).mean() + size\n"),
    "gradient": (
        "missing-create-graph",
        "    x.requires_grad_()\n    y = head(net(x))\n"
        "    slope = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]\n"
        "    penalty = slope.pow(2).mean()\n    loss = y.pow(2).mean() + penalty\n",
    ),
    "number": (
        "cut-by-conversion",
        "    size = 0\n    if head is not None:\n        size = net(-x).pow(2).mean()\n"
        "        size = size.detach().item()\n"
        "    loss = head(net(x)).pow(2).mean() + size\n",
    ),
    "leaf": (
        "cut-by-conversion",
        "    h = torch.tensor(net(x).tolist(), requires_grad=True)\n    loss = head(h).pow(2).mean()\n",
    ),
    "list of losses": (
        "cut-by-conversion",
        "    losses = [head(net(y)).pow(2).mean() for y in (x, -x)]\n"
        "    loss = torch.tensor(losses, requires_grad=True).sum()\n",
    ),
    "entry of a vector of losses": (
        "cut-by-detach",
        "    y = head(net(x))\n    losses = torch.zeros(3)\n    losses[0] = y.pow(2).mean()\n"
        "    losses[1] = 0.5 * net(-x).detach().abs().mean()\n    losses[2] = y.abs().mean()\n"
        "    losses[0] *= 2.0\n    loss = losses.sum() * len(x)\n",
    ),
    "let require gradients": (
        "cut-by-detach",
        "    h = net(x).detach().requires_grad_()\n    loss = head(h).pow(2).mean()\n",
    ),
}
HEALTHY = {
    "a number for a start": "    loss = 0\n    for y in (net(x), net(-x)):\n        loss = loss + head(y).mean()\n",
    "a constant": "    loss = head(net(x)).pow(2).mean() + 1e-3\n",
    "entries that are numbers, and one that is for show": "    y = head(net(x))\n    losses = torch.zeros(4)\n"
    "    losses[0] = y.pow(2).mean()\n    losses[1] = torch.tensor(0.5)\n    losses[2] = 0.1\n"
    "    loss = losses[:3].sum()\n    losses[3] = y.detach().abs().mean()\n",
    "detached by a flag": "    y = head(net(x))\n    seen = net(x)\n"
    "    if len(y) > 2:\n        seen = seen.detach()\n    loss = y.pow(2).mean() + seen.abs().mean()\n",
    "a detached baseline": "    y = head(net(x))\n    loss = ((y - y.detach().mean()) * y).mean()\n",
    "a number of the pass before": "    last = globals().get('kept', 0.0)\n    size = head(net(x)).pow(2).mean()\n"
    "    loss = size + last\n    kept = size.item()\n",
    "data for a target": "    goal = head(net(-x)).data\n    loss = (head(net(x)) - goal).pow(2).mean()\n",
    "straight through": "    h = net(x)\n    h = h + (h.round() - h).detach()\n    loss = head(h).pow(2).mean()\n",
    "a pass in two halves": "    h = net(x)\n    half = h.detach().requires_grad_()\n"
    "    first = head(half).pow(2).mean()\n    first.backward()\n    loss = (h * half.grad).sum()\n",
    "an unused head": "    loss = net(x).pow(2).mean()\n",
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("cause", "body"), SICK.values(), ids=SICK)
def test_told_by_the_cause_of_the_error_that_it_hides(cause: str, body: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, START + body + END)
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs[:1] == [cause]
    assert seen.evidence is not None and seen.evidence.as_if is not None


@pytest.mark.breadth(2)
@pytest.mark.parametrize("body", HEALTHY.values(), ids=HEALTHY)
def test_healthy_program_is_left_alone(body: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, START + body + END)
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs == []


SCORED = """\
    h = net(x)
    policy = torch.distributions.Categorical(logits=h)
    action = policy.sample()
    value = head(h).mean()
    gain = torch.ones(8) - value.item()
    loss = -(policy.log_prob(action) * gain).mean()
"""


def test_only_what_is_reached_in_no_way_receives_no_gradient(tmp_path: Path) -> None:
    seen = observe(tmp_path, START + SCORED + END)
    assert seen.slugs == ["cut-by-conversion"] and "`head.*` (2 parameters)" in seen.said


def test_a_value_that_goes_on_with_its_graph_was_wanted_as_a_number(tmp_path: Path) -> None:
    """The critic never learns because its loss is left out, and not because of the numbers of the baseline."""
    assert observe(tmp_path, START + SCORED + "    error = (value - 1).square()\n" + END).slugs == []


def test_a_loss_whose_hook_runs_the_backward_pass_is_left_alone(tmp_path: Path) -> None:
    example = Path(__file__).parent / "examples" / "cut-by-detach" / "gradient-cache-in-a-hook.py"
    seen = observe(tmp_path, example.read_text())
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs == []


def test_a_traceback_of_a_watched_program_is_its_own(tmp_path: Path) -> None:
    body = SICK["data"][1] + "    if x is not None and optimizer.state:\n        torch.zeros(2) + torch.zeros(3)\n"
    failing = START + body + END.replace("step()", "step()\n    optimizer.state[0] = 1")
    seen = observe(tmp_path, failing)
    assert seen.result.status == 1
    assert "graphdoc" not in seen.result.stderr.replace(str(tmp_path), "")


TWO_USES = "    h = net(x).detach()\n    loss = head(h).pow(2).mean(){more}\n"


@pytest.mark.slow
def test_where_a_value_enters_the_loss_at_one_place_nothing_is_left_open(tmp_path: Path) -> None:
    seen = observe(tmp_path, START + TWO_USES.format(more=" + h.pow(2).mean()") + END)
    assert seen.slugs[:1] == ["cut-by-detach"]
    assert [r.open for r in seen.found[0].finding.remedies] == [""]


@pytest.mark.slow
def test_a_name_that_is_bound_anew_is_one_use(tmp_path: Path) -> None:
    body = "    h = net(x).detach()\n    h = head(h)\n    loss = h.pow(2).mean()\n    pull = h.abs().mean()\n"
    seen = observe(tmp_path, START + body + "    loss = loss + pull + net.bias[0] * 0\n" + END)
    assert all(not r.open for f in seen.found for r in f.finding.remedies)


REFUSED = """\
    a, b = net(x).split(2, dim=1)
    try:
        a.detach_()
    except RuntimeError:
        pass
    rate = torch.ones(3).detach()
    (x * rate).pow(2).mean().backward()
"""


def test_a_cut_that_pytorch_refuses_is_none(tmp_path: Path) -> None:
    assert observe(tmp_path, START + REFUSED).slugs[0] == "constant-loss"


LISTED = """\
    values = []
    for row in x:
        values.append(head(net(row)).reshape(1, 1))
    values = torch.tensor(values, requires_grad=True)
    loss = (values - x.sum(1)).pow(2).mean()
"""


@pytest.mark.slow
def test_tensors_of_one_element_are_joined_to_what_their_numbers_were(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", START + LISTED + END)
    assert seen.slugs[:1] == ["cut-by-conversion"]
    ((kind, texts),) = seen.patches()
    (text,) = texts.values()
    assert kind == "stack_instead_of_tensor" and "values = torch.stack(values).reshape(-1)\n" in text
    assert observe(tmp_path / "mended", text).mended


@pytest.mark.slow
def test_which_of_two_uses_of_a_cut_value_is_to_train_is_left_open(tmp_path: Path) -> None:
    body = TWO_USES.format(more="") + "    pull = h.pow(2).mean()\n    loss = loss + 0.1 * pull\n"
    seen = observe(tmp_path, START + body + END)
    assert seen.slugs[:1] == ["cut-by-detach"]
    left = seen.found[0].finding.remedies[0].open
    assert "train.py:9 and train.py:10" in left and "`net.*` (2 parameters)" in left


ROUNDED = """\
import torch
from torch import nn

torch.manual_seed(0)
net, head = nn.Linear(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for x in torch.randn(8, 8, 3):
    code = torch.round(4 * net(x)) / 4
    loss = head(code).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

STAGES = """\
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.top = nn.Linear(3, 4), nn.Linear(4, 4)

    def freeze(self):
        for p in self.stem.parameters():
            p.requires_grad = False

    def train(self, mode=True):
        super().train(mode)
        self.freeze()
        return self

    def forward(self, x):
        return self.top(torch.tanh(self.stem(x)))


torch.manual_seed(0)
model = nn.Sequential(Backbone(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    model.train()
    if epoch WHEN 1:
        for p in model[0].stem.parameters():
            p.requires_grad = True
    for x in torch.randn(6, 8, 3):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
"""


def test_rounding_in_the_only_way_is_told(tmp_path: Path) -> None:
    seen = observe(tmp_path, ROUNDED)
    assert seen.slugs[:1] == ["nondifferentiable-op"]
    assert seen.lines("cause") == ["code = torch.round(4 * net(x)) / 4"]


def test_rounding_beside_another_way_is_not(tmp_path: Path) -> None:
    seen = observe(tmp_path, ROUNDED.replace("head(code)", "head(code + net(x))"))
    assert seen.slugs == []


def test_stages_that_train_freezes_again_are_told(tmp_path: Path) -> None:
    seen = observe(tmp_path, STAGES.replace("WHEN", "=="))
    assert seen.slugs[:1] == ["frozen-parameters"]
    assert "self.freeze()" in seen.lines("cause")
    kind, texts = seen.patches()[0]
    again = observe(tmp_path / "mended", texts["train.py"])
    assert kind == "several"
    assert again.mended


def test_stages_unfrozen_in_each_epoch_are_healthy(tmp_path: Path) -> None:
    assert observe(tmp_path, STAGES.replace("WHEN", ">=")).slugs == []


def test_stages_frozen_again_by_a_schedule_are_healthy(tmp_path: Path) -> None:
    """Nothing says that it is not meant: no ``train()`` undoes what another part of the program has done."""
    schedule = STAGES.replace("        self.freeze()\n", "").replace("epoch WHEN 1", "epoch in (0, 1, 2)")
    schedule = schedule.replace("p.requires_grad = True", "p.requires_grad = epoch == 1")
    assert observe(tmp_path, schedule).slugs == []


BLOCKS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)
        {kept}

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x).tanh()
        return self.last(x)


torch.manual_seed(0)
net = Net(1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(8, 8, 3):
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
"""


def test_a_list_that_a_loop_fills_with_a_single_module_is_not_registered(tmp_path: Path) -> None:
    filled = BLOCKS.format(
        kept="self.blocks = []\n        self.norms = []\n        for _ in range(depth):\n"
        "            self.blocks.append(nn.Linear(4, 4))\n            self.norms.append(nn.LayerNorm(4))"
    ).replace("x = block(x).tanh()", "x = self.norms[0](block(x).tanh())")
    seen = observe(tmp_path, filled)
    assert seen.slugs == ["parameters-never-reached"]
    assert seen.lines("cause") == ["self.blocks = []", "self.norms = []"]
    kind, texts = seen.patches()[0]
    assert kind == "several"
    assert texts["train.py"].count("nn.ModuleList([])") == 2


def test_a_list_written_out_for_one_module_keeps_it_to_itself(tmp_path: Path) -> None:
    seen = observe(tmp_path, BLOCKS.format(kept="self.blocks = [nn.Linear(4, 4)]"))
    assert (seen.result.status, seen.found) == (0, [])


TOWER = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))
head, spare = nn.Linear(4, 2), nn.Linear(4, 2)
for block in blocks[:{frozen}]:
    block.requires_grad_(False)
trained = [p for module in (blocks, head, spare) for p in module.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(trained, lr=0.1)
for x in torch.randn(6, 5, 4):
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=True)
    loss = head(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_blocks_that_a_checkpoint_runs_without_recording_are_told(tmp_path: Path) -> None:
    told = observe(tmp_path, TOWER.format(frozen=1))
    assert told.slugs == ["checkpoint-no-grad-input"]
    assert told.lines("cause") == ["x = checkpoint(block, x, use_reentrant=True)"]
    assert "`blocks.1.0.*` and `blocks.2.0.*` (4 parameters)" in told.said


@pytest.mark.slow
def test_a_spare_head_beside_a_frozen_tower_is_not_the_checkpoints_doing(tmp_path: Path) -> None:
    assert observe(tmp_path, TOWER.format(frozen=3)).slugs == []


IMAGINED = """\
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
world, value = nn.GRUCell(3, 4), nn.Linear(4, 1)
of_policy = torch.optim.Adam(policy.parameters(), lr=1e-3)
of_value = torch.optim.Adam(value.parameters(), lr=1e-3)
for step in range(12):
    state, total = torch.randn(6, 4), 0.0
    for _ in range(3):
        probs = torch.softmax(policy(state), 1)
        chosen = nn.functional.one_hot(torch.multinomial(probs, 1).squeeze(1), 3)
        action = chosen + probs - probs.detach()
        with torch.no_grad():
            state = world(action, state)
        total = total + value(state).mean()
    of_policy.zero_grad()
    of_value.zero_grad()
    (-total).backward()
    of_policy.step()
    of_value.step()
"""


@pytest.mark.slow
def test_an_unrecorded_step_of_a_model_cuts_the_policy_off_and_the_straight_through_sum_does_not(
    tmp_path: Path,
) -> None:
    seen = observe(tmp_path, IMAGINED)
    assert seen.slugs == ["cut-by-no-grad"]
    assert "with torch.no_grad():" in seen.lines("cause")


def test_what_is_only_measured_without_recording_is_healthy(tmp_path: Path) -> None:
    recorded = IMAGINED.replace("        with torch.no_grad():\n            state =", "        state =")
    watched = recorded.replace(
        "    of_policy.zero", "    with torch.no_grad():\n        drawn = action.sum()\n    of_policy.zero", 1
    )
    assert observe(tmp_path, watched).slugs == []
