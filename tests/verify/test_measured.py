"""A patch is verified where each step is given the gradient of its loss, for the weights that it stands at."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from examples import FOLDER
from installed import ON_PATH, install
from test_old_values import CLONED, FIT, INSIDE, TWO_LOSSES

from graphdoc.evidence import Evidence
from graphdoc.launch import Request, launch
from graphdoc.verify.compared import Measured, measured

pytestmark = pytest.mark.slow


def of_patch(folder: Path, source: str, *edits: tuple[str, str], steps: int = 0, cuts: bool = False) -> Measured:
    """What is measured of a program with each (old, new) text replaced, where the original failed after some steps."""
    path, out = folder / "train.py", folder / "out"
    text = patched = textwrap.dedent(source)
    for old, new in edits:
        assert old in patched
        patched = patched.replace(old, new)
    path.write_text(text)
    out.mkdir()
    mode = f"probe:whatif:trial:{steps}"
    request = Request(["train.py"], cwd=str(folder), mode=mode, patches={str(path): patched}, timeout=100.0, quiet=True)
    request.one_thread = True
    ended = launch(request, out)
    assert not ended.troubles and ended.exit_status == 0, ended
    (file,) = ended.evidence
    return measured(Evidence.read(str(file)), frozenset(), cuts)


ACTOR = """
import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 1), nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=0.01)
critic_opt = torch.optim.Adam(critic.parameters(), lr=0.01)
baseline = nn.Linear(3, 1)
for step in range(6):
    state, tried = torch.randn(64, 3), torch.rand(64, 1) * 4 - 2
    action = actor(state)
    q = critic(torch.cat([state, action], 1))
    v = baseline(state)
    critic_loss = (critic(torch.cat([state, tried], 1)) + (tried - 0.6).pow(2)).pow(2).mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    advantage = q - v
    actor_loss = (0.01 * action.pow(2) - advantage).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
"""
ANEW = "    q = critic(torch.cat([state, action], 1))\n"


def test_an_actor_that_loses_its_way_to_its_loss_is_told_with_the_part(tmp_path: Path) -> None:
    told = of_patch(tmp_path, ACTOR, ("q - v", "q.detach() - v.detach()"))
    assert told.wrong and "its cut makes the slope" in told.wrong[0] and "`actor.*` (2 parameters)" in told.wrong[0]


@pytest.mark.parametrize("cuts", [False, True])
def test_a_cut_that_takes_a_part_of_a_gradient_is_told_unless_the_patch_is_for_that(cuts: bool, tmp_path: Path) -> None:
    source = (FOLDER / "gradient-leaks-into-target" / "advantage-of-one-optimizer.py").read_text()
    told = of_patch(tmp_path, source, ("* advantage)", "* advantage.detach())"), cuts=cuts)
    assert bool(told.wrong) is not cuts and bool(told.agrees) is cuts


def test_a_value_that_others_train_may_be_cut_off(tmp_path: Path) -> None:
    told = of_patch(tmp_path, ACTOR, ("    advantage = q - v\n", f"{ANEW}    advantage = q - v.detach()\n"))
    assert not told.wrong and "those of its losses" in told.agrees, told


def searching(search: str) -> str:
    """The closure with this line search."""
    return FIT.replace("max_iter=4", f"max_iter=4, line_search_fn={search}")


@pytest.mark.parametrize("search", ["None", "'strong_wolfe'"])
def test_a_closure_without_its_forward_steps_by_older_values(tmp_path: Path, search: str) -> None:
    stale = of_patch(tmp_path, searching(search), ("net(x)", CLONED))
    assert stale.wrong and "a gradient of older values" in stale.wrong[0], stale


@pytest.mark.parametrize("search", ["None", "'strong_wolfe'"])
def test_a_closure_with_its_forward_does_not(tmp_path: Path, search: str) -> None:
    right = of_patch(tmp_path, searching(search), *INSIDE)
    assert not right.wrong and right.agrees, right


def test_a_second_step_on_one_graph_is_by_older_values(tmp_path: Path) -> None:
    stale = of_patch(tmp_path, TWO_LOSSES, ("net(x)", CLONED), steps=1)
    assert stale.wrong and "does not move with `net." in stale.wrong[0], stale


def test_a_state_that_is_kept_is_no_cut_of_this_round(tmp_path: Path) -> None:
    carried = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
    state = torch.zeros(4, 8)
    for _ in range(6):
        x = torch.randn(4, 3)
        state = cell(x, state)
        loss = (head(state) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    told = of_patch(tmp_path, carried, ("    optimizer.step()\n", "    optimizer.step()\n    state = state.detach()\n"))
    assert not told.wrong and told.agrees, told


SPIKING = """
import torch
from torch import nn

torch.manual_seed(0)


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0) * torch.div(v, 0.2, rounding_mode="trunc")

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g * (v >= 0.1).float() / 0.2


layers, states = nn.ModuleList([nn.Linear(6, 32), nn.Linear(32, 3)]), [torch.zeros(4, 32), torch.zeros(4, 3)]
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
for _ in range(8):
    x, y = 6 * torch.rand(4, 10, 6), torch.randint(0, 3, (4,))
    for state in states:
        state.zero_()
    optimizer.zero_grad()
    for n, layer in enumerate(layers):
        x, spikes = layer(x), []
        for step in range(10):
            v = 0.9 * states[n] + x[:, step]
            spikes.append(Spike.apply(v))
            states[n] = v - spikes[-1] * 0.2
        x = torch.stack(spikes, 1)
    loss = nn.functional.cross_entropy(x.sum(1), y)
    loss.backward()
    optimizer.step()
"""


def test_a_loss_that_jumps_says_nothing_against_a_cut_of_what_is_set_anew(tmp_path: Path) -> None:
    told = of_patch(
        tmp_path, SPIKING, ("        state.zero_()", "        state.detach_()\n        state.zero_()"), steps=1
    )
    assert not told.wrong, told


CUSTOM = """
import torch
from torch import nn

torch.manual_seed(0)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g


net, head = nn.Linear(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)
for _ in range(6):
    x = torch.randn(16, 3)
    h = net(x)
    HOOK
    loss = head(h).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


FIRST_ORDER = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(6):
    x = torch.randn(16, 3)
    support = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    w = [p - 0.3 * g for p, g in zip(net.parameters(), torch.autograd.grad(support, net.parameters()))]
    query = (torch.tanh(x @ w[0].t() + w[1]) @ w[2].t() + w[3] - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    (query + support).backward()
    optimizer.step()
"""


def test_a_gradient_that_the_program_takes_for_a_number_is_no_cut_of_the_patch(tmp_path: Path) -> None:
    kept = ("net.parameters()))]", "net.parameters(), retain_graph=True))]")
    told = of_patch(tmp_path, FIRST_ORDER, kept)
    assert not told.wrong and told.agrees, told


def test_another_form_of_a_cut_is_none_of_the_patch(tmp_path: Path) -> None:
    source = CUSTOM.replace("HOOK", "with torch.inference_mode():\n        scale = 1 + net(x).pow(2).mean()")
    source = source.replace("head(h)", "(head(h) * float(scale))")
    told = of_patch(tmp_path, source, ("inference_mode", "no_grad"))
    assert not told.wrong and told.agrees, told


@pytest.mark.parametrize("line", ["h = Reversed.apply(h)", "h.register_hook(lambda g: -2 * g)"])
def test_a_gradient_that_the_program_itself_makes_another_speaks_against_nothing(tmp_path: Path, line: str) -> None:
    told = of_patch(tmp_path, CUSTOM.replace("HOOK", line))
    assert not told.wrong, told


def test_a_gradient_that_a_package_makes_another_speaks_against_nothing(tmp_path: Path) -> None:
    head, _, rest = CUSTOM.partition("net, head =")
    install(tmp_path, "spiking", "1.0", {"spiking.py": head})
    program = f"{ON_PATH}import torch\nfrom torch import nn\nfrom spiking import Reversed\n\nnet, head ={rest}"
    told = of_patch(tmp_path, program.replace("HOOK", "h = Reversed.apply(h)"))
    assert not told.wrong, told


def test_zeros_by_a_bound_of_the_patch_are_told(tmp_path: Path) -> None:
    source = CUSTOM.replace("    HOOK\n", "")
    told = of_patch(tmp_path, source, ("loss = head(h)", "loss = head((h * 8).round() / 8)"))
    assert told.wrong and "zeros alone by its change" in told.wrong[0], told


def test_that_nothing_can_be_measured_is_said(tmp_path: Path) -> None:
    ends = "import signal\nsignal.signal(signal.SIGCHLD, lambda *_: None)\n"
    told = of_patch(tmp_path, ends + CUSTOM.replace("    HOOK\n", ""))
    assert not told.wrong and not told.agrees and "child processes" in told.why
