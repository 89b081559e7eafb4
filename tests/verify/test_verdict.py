"""What a patch does to the gradients decides, not that the crash is gone. Wrong patches first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tracing import Sick, traced

from graphdoc.evidence import Evidence, Raised, Sign
from graphdoc.fixes.kinds import Traits
from graphdoc.launch import Ended
from graphdoc.verify.compared import Baseline, Outcome
from graphdoc.verify.failing_again import left_in_part, left_over, same_signs
from graphdoc.verify.traces import Trace, stepped_between
from graphdoc.verify.trial import UNSTEADY, outcome_of, repeats
from graphdoc.verify.verdict import crashed, judge, without_original

CARRIED = """\
import torch
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 8)
        self.head = nn.Linear(8, 2)
        self.state = (torch.zeros(1, 8), torch.zeros(1, 8))

    def forward(self, obs):
        self.state = self.cell(obs, self.state)
        return self.head(self.state[0])


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for epoch in range(6):
    loss = 0.0
    for _ in range(3):
        loss = loss + nn.functional.cross_entropy(policy(torch.randn(1, 3)), torch.tensor([epoch % 2]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CELL = "self.state = self.cell(obs, self.state)"
DETACH = "policy.state = tuple(t.detach() for t in policy.state)\n"


@pytest.fixture(scope="module")
def carried(tmp_path_factory):
    return Sick(tmp_path_factory.mktemp("carried"), CARRIED)


def test_a_cut_that_ends_learning_is_refused(carried):
    cut = "self.state = tuple(t.detach() for t in self.cell(obs, self.state))"
    verdict = carried.judge(carried.edited((CELL, cut)))
    assert verdict.verified is False
    assert "policy.cell.weight_hh" in verdict.data["lost_gradient"]
    assert not any("head" in name for name in verdict.data["lost_gradient"])
    assert "no longer receive any gradient" in verdict.summary


def test_a_cut_inside_the_window_is_not_called_verified(carried):
    # Every parameter still learns, but not from the steps before.
    cut = "self.state = self.cell(obs, [s.detach() for s in self.state])"
    verdict = carried.judge(carried.edited((CELL, cut)))
    assert verdict.verified is None
    assert "gives other gradients" in verdict.summary and "policy.cell" in verdict.summary


def test_a_cut_after_the_step_is_verified(carried):
    verdict = carried.judge(carried.source + "    " + DETACH)
    assert verdict.verified is True
    assert verdict.data["passed_crash"] is True and verdict.data["steps"] == 6
    assert verdict.data["lost_gradient"] == []
    assert "ran to its end (6 optimizer steps)" in verdict.summary


def test_a_loss_made_to_require_grad_is_refused(tmp_path):
    sick = Sick(
        tmp_path,
        """\
        import torch
        net = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            loss = torch.tensor(net(torch.ones(4, 2)).pow(2).mean().item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    )
    covered = sick.judge(sick.edited(("item())", "item(), requires_grad=True)")))
    assert covered.verified is False and "a gradient other than zero" in covered.summary
    loss = "torch.tensor(net(torch.ones(4, 2)).pow(2).mean().item())"
    mended = sick.judge(sick.edited((loss, "net(torch.ones(4, 2)).pow(2).mean()")))
    assert mended.verified is True
    assert "every parameter of its optimizers receives gradient" in mended.summary
    half = sick.judge(sick.edited((loss, "net.bias.pow(2).mean()")))
    assert half.verified is None
    assert "`net.weight` receives no gradient" in half.summary


LOSSES = """\
import torch
from torch import nn

torch.manual_seed(0)
trunk, left, right = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*trunk.parameters(), *left.parameters(), *right.parameters()], lr=0.1)
for _ in range(4):
    features = torch.tanh(trunk(torch.randn(5, 3)))
    loss_left = left(features).pow(2).mean()
    loss_right = (right(features) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss_left.backward()
    loss_right.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    return Sick(tmp_path_factory.mktemp("losses"), LOSSES)


def merged(sick, total):
    return sick.edited(("    loss_left.backward()\n", ""), ("loss_right.backward()", f"({total}).backward()"))


IN_A_LOOP = """\
import torch
from torch import nn

torch.manual_seed(0)
trunk, tops = nn.Linear(3, 8), [nn.Linear(8, 1), nn.Linear(8, 1)]
trunk_opt = torch.optim.SGD(trunk.parameters(), lr=0.1)
top_opts = [torch.optim.SGD(top.parameters(), lr=0.1) for top in tops]
for _ in range(4):
    features = torch.tanh(trunk(torch.randn(5, 3)))
    losses = [top(features).pow(2).mean() for top in tops]
    trunk_opt.zero_grad()
    for loss, top_opt in zip(losses, top_opts):
        top_opt.zero_grad()
        loss.backward()
        top_opt.step()
    trunk_opt.step()
"""


@pytest.mark.slow
def test_a_merge_of_the_calls_of_one_line_is_verified(tmp_path):
    sick = Sick(tmp_path, IN_A_LOOP)
    loop = "        loss.backward()\n        top_opt.step()\n    trunk_opt.step()\n"
    steps = "    for o in [*top_opts, trunk_opt]:\n        o.step()\n"
    assert sick.judge(sick.edited((loop, f"    sum(losses).backward()\n{steps}"))).verified is True
    # The same number of calls, each with another gradient than it had.
    doubled = sick.judge(sick.edited(("loss.backward()", "(2 * loss).backward(retain_graph=True)")))
    assert doubled.verified is None and "gives other gradients" in doubled.summary


def test_a_merge_with_another_gradient_is_not_called_verified(losses):
    verdict = losses.judge(merged(losses, "loss_left - loss_right"), safe=True)
    assert verdict.verified is None and not verdict.equal
    assert verdict.data["max_relative_difference"] > 0.01
    assert "differ from the reference" in verdict.summary


def test_a_detached_trunk_is_not_called_verified(losses):
    verdict = losses.judge(losses.edited(("right(features)", "right(features.detach())")))
    assert verdict.verified is None
    assert "no longer trains `trunk.*` (2 parameters)" in verdict.summary


def test_a_true_merge_equals_the_reference(losses):
    verdict = losses.judge(merged(losses, "loss_left + loss_right"), safe=True)
    assert verdict.verified is True
    assert verdict.data["max_relative_difference"] < 1e-5
    assert "made to go on" in verdict.data["reference"]


def test_gradients_of_an_inplace_fault_equal_the_reference(tmp_path):
    sick = Sick(
        tmp_path,
        """\
        import torch
        from torch import nn
        torch.manual_seed(0)
        net, head = nn.Linear(3, 8), nn.Linear(8, 1)
        optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
        for _ in range(3):
            x = torch.sigmoid(net(torch.randn(5, 3)))
            x += 1
            loss = head(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    )
    right = sick.judge(sick.edited(("x += 1", "x = x + 1")), safe=True)
    assert right.verified is True and right.data["max_relative_difference"] < 1e-6
    wrong = sick.judge(sick.edited(("x += 1", "x = 2 * x + 1")), safe=True)
    assert wrong.verified is None and not wrong.equal
    cut = sick.judge(sick.edited(("x += 1", "x = x.detach() + 1")), safe=True)
    assert cut.verified is False and "net.weight" in cut.data["lost_gradient"]


PIECES = """\
import torch
from torch import nn

torch.manual_seed(0)
net, head = nn.Linear(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)


def spread(table, shifts):
    for row, shift in zip(table, shifts):
        row.sub_(shift).mul_(3.0)
    return table


for _ in range(3):
    loss = head(spread(net(torch.randn(2, 3)), [0.5, -1.0])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ROWS = "    for row, shift in zip(table, shifts):\n        row.sub_(shift).mul_(3.0)\n"


def test_a_rewrite_whose_result_is_lost_is_not_called_verified(tmp_path):
    # Every parameter goes on learning, and the program runs to its end: only the loss tells.
    sick = Sick(tmp_path, PIECES)
    lost = sick.judge(sick.edited(("row.sub_(shift).mul_(3.0)", "row = row.sub(shift).mul(3.0)")), same_numbers=True)
    assert lost.verified is None and lost.data["loss_difference"] > 0.01
    assert any("in the program as it is written" in d for d in lost.data["doubts"])
    joined = "    table = torch.stack([row.sub(s).mul(3.0) for row, s in zip(table, shifts)])\n"
    right = sick.judge(sick.edited((ROWS, joined)), same_numbers=True)
    assert right.verified is True and right.data["loss_difference"] < 1e-6
    assert right.data["max_relative_difference"] < 1e-5


@pytest.mark.slow
def test_a_write_that_something_else_saw_is_not_called_verified_without(tmp_path):
    sick = Sick(
        tmp_path,
        """\
        import torch
        from torch import nn
        torch.manual_seed(0)
        net, head = nn.Linear(3, 8), nn.Linear(8, 1)
        optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
        for _ in range(3):
            h = torch.sigmoid(net(torch.randn(5, 3)))
            kept = [h]
            h += 1
            loss = head(kept[0]).pow(2).mean() + h.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    )
    lost = sick.judge(sick.edited(("h += 1", "h = h + 1")), same_numbers=True)
    assert lost.verified is None and lost.data["loss_difference"] > 0.01
    seen = sick.judge(sick.edited(("h += 1", "h = h + 1"), ("kept[0]", "h")), same_numbers=True)
    assert seen.verified is True


ACTOR_CRITIC = """\
import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(12):
    obs, returns = torch.randn(6, 4), torch.randn(6)
    dist = torch.distributions.Categorical(logits=actor(obs))
    log_prob = dist.log_prob(dist.sample())
    advantage = returns - critic(obs).squeeze(-1)
    critic_opt.zero_grad()
    critic_loss = advantage.pow(2).mean()
    critic_loss.backward()
    critic_opt.step()
    actor_opt.zero_grad()
    actor_loss = -(log_prob * advantage).mean()
    actor_loss.backward()
    actor_opt.step()
"""


@pytest.fixture(scope="module")
def actor_critic(tmp_path_factory):
    return Sick(tmp_path_factory.mktemp("actor_critic"), ACTOR_CRITIC)


def test_the_other_networks_gradient_may_stop_where_it_has_a_loss_of_its_own(actor_critic):
    verdict = actor_critic.judge(actor_critic.edited(("log_prob * advantage", "log_prob * advantage.detach()")))
    assert verdict.verified is True
    assert any("critic" in sentence for sentence in verdict.data["stopped_elsewhere"])


def test_a_network_left_without_any_loss_is_refused(actor_critic):
    everywhere = actor_critic.edited(("critic(obs).squeeze(-1)", "critic(obs).squeeze(-1).detach().requires_grad_()"))
    verdict = actor_critic.judge(everywhere)
    assert verdict.verified is False
    assert verdict.data["lost_gradient"] == ["critic.bias", "critic.weight"]


def test_an_optimizer_that_never_steps_again_is_refused(actor_critic):
    verdict = actor_critic.judge(
        actor_critic.edited(("log_prob * advantage", "log_prob * advantage.detach()"), ("    critic_opt.step()\n", ""))
    )
    assert verdict.verified is False


def test_a_graph_that_grows_is_not_called_verified(tmp_path):
    sick = Sick(
        tmp_path,
        """\
        import torch
        torch.manual_seed(0)
        scale, shift = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.zeros(4))
        optimizer = torch.optim.SGD([shift], lr=0.1)
        mean = torch.zeros(4)
        for _ in range(12):
            y = torch.randn(16, 4) * scale
            mean = 0.9 * mean + 0.1 * y.mean(0)
            loss = (y - mean + shift).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    )
    kept = sick.judge(sick.edited(("loss.backward()", "loss.backward(retain_graph=True)")))
    assert kept.verified is None and "grows with every call" in kept.summary
    cut = sick.judge(sick.source + "    mean = mean.detach()\n")
    assert cut.verified is True


BUILT_ONCE = """\
import torch
from torch import nn

torch.manual_seed(0)
embed, body = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), nn.Linear(4, 1)
optimizer = torch.optim.AdamW([*embed.parameters(), *body.parameters()], lr=0.01)
mask = embed(torch.ones(1, 3))
for _ in range(4):
    loss = body(embed(torch.randn(5, 3)) + mask).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
"""
MASK = "mask = embed(torch.ones(1, 3))\n"


def test_a_graph_of_an_earlier_iteration_is_not_called_cured(tmp_path):
    # On clones the old graph can be walked for ever: the gradients are those of the first values.
    sick = Sick(tmp_path, BUILT_ONCE)
    cloned = "{k: v.clone() for k, v in embed.named_parameters()}, (torch.ones(1, 3),))"
    kept = sick.judge(sick.edited(("embed(torch.ones(1, 3))", f"torch.func.functional_call(embed, {cloned}")))
    assert kept.verified is False and "the graph of an earlier iteration" in kept.summary
    assert "`embed.*` (4 parameters)" in kept.summary
    flag = ("retain_graph=True", "")
    inside = sick.judge(sick.edited((MASK, ""), ("+ mask", "+ embed(torch.ones(1, 3))"), flag))
    assert inside.verified is True
    constant = sick.judge(sick.edited(("embed(torch.ones(1, 3))", "embed(torch.ones(1, 3)).detach()"), flag))
    assert constant.verified is not False


@pytest.mark.slow
def test_a_part_that_several_losses_of_one_iteration_walk_is_no_old_graph(tmp_path):
    # The line is the same in each round, and a head is stepped in between, but nothing behind what they share.
    sick = Sick(
        tmp_path,
        """\
        import torch
        from torch import nn
        torch.manual_seed(0)
        trunk, heads = nn.Linear(3, 4), [nn.Linear(4, 1), nn.Linear(4, 1)]
        opts = [torch.optim.SGD(h.parameters(), lr=0.1) for h in heads]
        trunk_opt = torch.optim.SGD(trunk.parameters(), lr=0.1)
        for _ in range(3):
            z = trunk(torch.randn(5, 3)).tanh()
            trunk_opt.zero_grad()
            for head, opt in zip(heads, opts):
                opt.zero_grad()
                head(z).pow(2).mean().backward()
                opt.step()
            trunk_opt.step()
        """,
    )
    kept = sick.judge(sick.edited((".backward()", ".backward(retain_graph=True)")))
    assert kept.verified is True


def test_a_graph_of_older_values_is_no_reference(carried, losses):
    assert stepped_between(carried.baseline.trace, -1, carried.failing)
    assert not stepped_between(losses.baseline.trace, -1, losses.failing)


@pytest.mark.parametrize(
    ("outcome", "verified", "words"),
    [
        (Outcome(1, False, 1.0, "RuntimeError: x", same=True, autograd=True), False, "still fails in the same way"),
        (Outcome(1, False, 1.0, "RuntimeError: x", autograd=True), False, "now fails with RuntimeError: x"),
        (Outcome(1, False, 1.0, "NameError: x", clumsy=True), False, "changed program fails with NameError"),
        (Outcome(1, False, 1.0, "KeyError: 'x'"), None, "then ends with KeyError"),
        (Outcome(3, False, 1.0), None, "exit status 3"),
        (Outcome(0, False, 1.0), None, "no trace"),
    ],
)
def test_a_run_that_does_not_get_past_the_failure(outcome, verified, words):
    verdict = crashed(outcome, None)
    assert verdict is not None and verdict.verified is verified
    assert words in verdict.summary and verdict.data["passed_crash"] is not True


@pytest.mark.parametrize("later", ["elsewhere", "passed"])
@pytest.mark.parametrize(("records", "verified"), [(True, None), (False, False)])
def test_what_cuts_nothing_off_is_not_to_blame_for_a_later_fault(records, verified, later):
    outcome = Outcome(1, False, 1.0, "RuntimeError: x", autograd=True, place=" at train.py:9")
    verdict = crashed(
        replace(outcome, traits=Traits(only_records=records), elsewhere=later == "elsewhere", passed=later == "passed"),
        None,
    )
    assert verdict is not None and verdict.verified is verified
    assert "then fails at train.py:9" in verdict.summary or verified is False


def test_a_run_that_was_stopped_counts_once_it_is_well_beyond(actor_critic):
    trace, stopped = actor_critic.baseline.trace, Outcome(137, True, 20.0)
    verdict = judge(stopped, trace, actor_critic.baseline, False)
    assert verdict.verified is True and "still running after 20 s" in verdict.summary
    short = Trace(order=trace.order[:3], total_calls=2, total_steps=1)
    assert judge(stopped, short, actor_critic.baseline, False).summary == "no result within 20 s"
    assert judge(stopped, short, actor_critic.baseline, False).verified is None


def test_a_failure_before_the_failing_call_says_nothing_of_the_crash(actor_critic):
    trace = actor_critic.baseline.trace
    outcome = Outcome(1, False, 1.0, "FileExistsError: 'log'", place=" at train.py:3", later=True)
    early = judge(outcome, Trace(), actor_critic.baseline, False)
    assert early.verified is None and early.data["passed_crash"] is None
    assert early.summary.startswith("the patched program meets another failure at train.py:3")
    to_it = [e for e in trace.order if e.index <= actor_critic.failing]
    there = judge(outcome, Trace(order=to_it, total_calls=2), actor_critic.baseline, False)
    assert there.verified is None and there.data["passed_crash"] is True
    assert there.summary.startswith("the crash is gone; the program then meets")


def test_nothing_is_verified_without_the_original_to_compare_with(carried):
    for late in (False, True):
        verdict = without_original(Outcome(0, False, 1.0), carried.baseline.trace, "it started a shell", late)
        assert verdict.verified is None and verdict.summary.endswith("to compare with: it started a shell")
        assert verdict.open is late


CURVED = """\
import torch
torch.set_warn_always(True)  # PyTorch warns once a process, and a test before this may have had it
torch.manual_seed(0)
layer = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(4, 3)
    opt.zero_grad()
    layer(x).square().mean().backward()
{again}
    opt.step()
"""
ASKED_AGAIN = "    torch.autograd.grad(sum(p.grad.sum() for p in layer.parameters()), layer.weight)"
ADDED = "    layer.weight.grad.square().sum().backward()"


@pytest.mark.slow
def test_the_warning_about_kept_gradients_is_a_doubt_only_where_losses_mix_in_them(tmp_path):
    for name, again, verified in (("asked", ASKED_AGAIN, True), ("added", ADDED, None)):
        sick = Sick(tmp_path / name, CURVED.format(again=again))
        assert (
            sick.judge(sick.edited(("mean().backward()", "mean().backward(create_graph=True)"))).verified is verified
        ), name


TWO_SUMS = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)])
opts = [torch.optim.SGD(n.parameters(), lr=0.1) for n in net]
for x in torch.randn(3, 5, 3):
    total = 0
    for n, opt in zip(net, opts):
        total = total + n(x).square().mean()
        opt.zero_grad()
    total.backward()
    for opt in opts:
        opt.step()
    for n in net:
        loss = (n(x) - 1).square().mean()
        total += loss
    total.backward()
    opts[1].step()
"""


@pytest.mark.slow
def test_what_the_failing_call_reached_by_its_own_graph_has_to_stay(tmp_path):
    sick = Sick(tmp_path, TWO_SUMS)
    last = sick.judge(sick.edited(("total += loss\n    total.b", "total += loss.detach()\n    loss.b")))
    assert last.verified is None and "no longer trains `net.0.*` (2 parameters)" in last.summary
    assert sick.judge(sick.edited(("    for n in net:\n", "    total = 0\n    for n in net:\n"))).verified is True


def test_a_safe_fix_with_nothing_to_compare_is_not_called_proven(tmp_path):
    sick = Sick(
        tmp_path,
        """\
        import torch
        x = torch.ones(3, requires_grad=True)
        y = x * x
        y.sum().backward()
        y.sum().backward()
        print(x.grad)
        """,
    )
    halved = sick.judge(
        "import torch\nx = torch.ones(3, requires_grad=True)\ny = x * x\ny.sum().backward()\n", safe=True
    )
    assert halved.verified is None and halved.unmeasured
    assert "nothing to compare" in halved.summary


def test_what_the_reference_did_later_is_not_lost_by_a_run_that_was_stopped(carried):
    failing = carried.baseline.failing
    short = replace(carried.baseline.trace, order=[e for e in carried.baseline.trace.order if e.index <= failing + 4])
    late = replace(carried.baseline, trace=replace(carried.baseline.trace, optimizers={0: "SGD", 1: "Adam"}))
    step = late.trace.steps[-1]
    late.trace.order.append(replace(step, index=failing + 9, optimizer=1))
    assert judge(Outcome(0, False, 1.0), short, late, False).verified is False
    assert "Adam" not in judge(Outcome(0, False, 1.0, stopped=True), short, late, False).summary


ONCE = """\
import torch
from torch import nn

torch.manual_seed(0)
policy, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()])
states, rewards = torch.randn(6, 4), torch.randn(6, 1)
advantages = rewards - critic(states)
for _ in range(3):
    learned = (critic(states) - rewards).square().mean()
    loss = learned - (policy(states).log_softmax(-1) * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_was_computed_once_may_become_a_constant_from_the_first_call_on(tmp_path):
    sick = Sick(tmp_path, ONCE)
    constant = sick.judge(sick.edited(("* advantages)", "* advantages.detach())")))
    assert constant.verified is True
    assert "worked before and now gives other gradients to `critic.*` (2 parameters)" in constant.summary
    learned = ("learned = (critic(states) - rewards).square().mean()", "learned = 0.0 * critic(states).mean()")
    assert sick.judge(sick.edited(("* advantages)", "* advantages.detach())"), learned)).verified is not True
    scaled = sick.judge(sick.edited(("* advantages)", "* 2 * advantages.detach())")))
    assert scaled.verified is None and "`policy.*` (2 parameters)" in scaled.summary


DRAWN = """\
import torch
from torch import nn

net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
state = torch.zeros(1, 3)
for x in torch.randn(4, 1, 3):
    state = net(x + state)
    optimizer.zero_grad()
    state.square().sum().backward()
    optimizer.step()
"""


def test_a_program_that_never_repeats_itself_is_known_by_its_first_calls(tmp_path):
    def of(name, text):
        return traced(tmp_path / name, text, "verify:-1").trace

    assert repeats(of("a", DRAWN), of("b", DRAWN), 2, 1e-3)  # without a seed PyTorch begins with the same one
    drawn = DRAWN.replace("net = nn", "torch.seed()\nnet = nn")
    assert not repeats(of("c", drawn), of("d", drawn), 2, 1e-3)


@pytest.mark.slow
def test_numbers_of_a_program_that_does_not_repeat_itself_are_not_compared(carried):
    other = carried.edited(
        ("lr=1e-2)", "lr=1e-2)\nfor p in policy.parameters():\n    p.data.mul_(1.1)"),
        ("    optimizer.step()\n", f"    optimizer.step()\n    {DETACH}"),
    )
    compared = carried.judge(other)
    assert compared.verified is None and "the first backward" in compared.summary and compared.differs
    steady = carried.baseline
    carried.baseline = replace(steady, steady=False, no_reference=UNSTEADY)
    try:
        told = carried.judge(other)
    finally:
        carried.baseline = steady
    assert told.verified is True and UNSTEADY in told.summary
    assert "reference_gradients" not in told.data and told.data["reference"] == f"none: {UNSTEADY}"


MASKED = """\
import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.drop = nn.Embedding(5, 6), nn.Dropout(0.5)
        self.blank = self.drop(self.table(torch.tensor([0]))).tanh()
        self.core, self.head = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, words, share):
        seen = self.drop(self.table(words))
        return self.head(torch.tanh(self.core(share * seen + (1 - share) * self.blank)))


tagger = Tagger()
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
for _ in range(6):
    loss = tagger(torch.randint(5, (4,)), torch.rand(4, 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BLANK = "        self.blank = self.drop(self.table(torch.tensor([0]))).tanh()\n"


@pytest.mark.slow
def test_draws_that_a_patch_moves_make_no_numbers_to_compare(tmp_path):
    """What is computed in each pass draws its dropout there: every later number of the program is another draw."""
    sick = Sick(tmp_path, MASKED)
    anew = "        seen = self.drop(self.table(words))\n"
    right = sick.judge(sick.edited((BLANK, ""), (anew, BLANK + anew)))
    assert right.verified is True and "at another point of the run" in right.summary and right.differs
    cut = sick.judge(
        sick.edited(
            (BLANK, ""),
            (anew, BLANK + anew),
            ("self.core(share", "self.core((share"),
            ("self.blank)))", "self.blank).detach())))"),
        )
    )
    assert cut.verified is False and cut.data["lost_gradient"]
    still = sick.judge(
        sick.edited(
            ("(4, 1)).square()", "(4, 1)).mul(2).square()"),
            (".tanh()\n        self.core,", ".tanh().detach()\n        self.core,"),
        )
    )
    assert still.verified is None and "the first backward" in still.summary


TWO_LOSSES = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout({rate}), nn.Linear(8, 8), nn.Tanh())
first, second = nn.Linear(8, 4), nn.Linear(8, 1)
one = torch.optim.SGD([*net.parameters(), *first.parameters()], lr=0.1)
two = torch.optim.SGD([*net.parameters(), *second.parameters()], lr=0.1)
for _ in range(5):
    x = torch.randn(6, 4)
    z = net(x)
    loss = (first(z) - x).square().mean()
    one.zero_grad()
    loss.backward(retain_graph=True)
    one.step()
    loss = second(z).square().mean()
    two.zero_grad()
    loss.backward()
    two.step()
"""
STEP, CLONES = (
    "    one.step()\n",
    "torch.func.functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, (x,))",
)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "again"), [(0.5, True), (0.0, False)])
def test_a_forward_that_runs_again_with_another_dropout_is_told_from_one_without(tmp_path, rate, again):
    sick = Sick(tmp_path, TWO_LOSSES.format(rate=rate))
    anew = sick.judge(sick.edited((STEP, STEP + "    z = net(x)\n")), traits=Traits(runs_again=True))
    assert anew.verified is True and anew.draws_again is again and ("of two draws" in anew.summary) is again
    kept = sick.judge(sick.edited(("net(x)", CLONES)), traits=Traits(runs_again=True))
    assert kept.verified is True and not kept.draws_again


def test_a_second_nan_in_other_parameters_is_left_over():
    first = Evidence(signs=[Sign("nonfinite", parameters=["actor.weight"])])
    second = Evidence(signs=[Sign("nonfinite", parameters=["critic.weight"])])
    other = Evidence(signs=[Sign("step-missing", parameters=["critic.weight"])])
    assert not same_signs(first.signs, second.signs)
    assert left_over(first.signs, second.signs) == "another value that is not finite is still met in critic.weight"
    assert (
        left_over(first.signs, other.signs) == left_over(other.signs, second.signs) == left_over(first.signs, []) == ""
    )


def test_what_is_gone_for_some_parameters_is_left_over_for_the_rest():
    first = Evidence(signs=[Sign("cut-off", parameters=["policy.weight", "value.weight"])])
    second = Evidence(signs=[Sign("cut-off", parameters=["value.weight"])])
    assert same_signs(first.signs, first.signs) and not same_signs(first.signs, second.signs)
    outcome = outcome_of(first, second, Ended(0), {}, {}, "")
    assert outcome.left == "the same is still seen of `value.weight`" and not outcome.still
    assert left_in_part(first.signs, first.signs) == ""


@pytest.mark.parametrize("crashed", [True, False])
def test_what_is_seen_beside_a_crash_is_a_fault_of_its_own(crashed):
    original = Evidence(signs=[Sign("graph-grows")])
    if crashed:
        original.raised = Raised("RuntimeError", "Can't call numpy() on Tensor that requires grad.")
    patched = Evidence(signs=[Sign("graph-grows")])
    assert outcome_of(original, patched, Ended(0), {}, {}, "").still is not crashed


@pytest.mark.parametrize("keeps_finite", [True, False])
def test_what_is_seen_beside_a_nan_is_a_fault_of_its_own(keeps_finite):
    original = Evidence(signs=[Sign("nonfinite"), Sign("update-rounded-away")])
    patched = Evidence(signs=[Sign("update-rounded-away")])
    outcome = outcome_of(original, patched, Ended(0), {}, {}, "", Traits(keeps_finite=keeps_finite))
    assert outcome.still is not keeps_finite


def test_another_fault_of_the_run_is_not_what_a_patch_is_to_end():
    told, other = Sign("unheld-weight", parameters=["loss.weight"]), Sign("empty-group")
    original, patched = Evidence(signs=[told, other]), Evidence(signs=[other])
    assert outcome_of(original, patched, Ended(0), {}, {}, "").still  # which of the two it is to end is not known
    assert not outcome_of(original, patched, Ended(0), {}, {}, "", signs=[told]).still
    assert outcome_of(original, original, Ended(0), {}, {}, "", signs=[told]).still


@pytest.mark.parametrize("power", [2, 1])
def test_what_is_to_keep_the_loss_of_a_run_that_went_on_gives_the_first_one_as_it_was(power, tmp_path):
    head = CARRIED[: CARRIED.index("class Policy")] + "net = nn.Linear(3, 1)\n"
    head += "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    loop = "for _ in range(3):\n    optimizer.zero_grad()\n    (net(torch.ones(4, 3)) ** 2).mean().backward()\n"
    program = head + loop + "    optimizer.step()\n"
    original = traced(tmp_path / "original", program, "verify:-1")
    patched = traced(tmp_path / "patched", program.replace("** 2", f"** {power}"), "verify:-1")
    baseline = Baseline(original.trace, gone="what was found is gone")
    verdict = judge(Outcome(0, False, 1.0, traits=Traits(keeps_loss=True)), patched.trace, baseline, False)
    assert verdict.verified is (True if power == 2 else None), verdict
    assert ("the first loss, at train.py:11, is" in verdict.summary) is (power == 1), verdict.summary


ADVERSARY = """\
import torch
from torch import nn

torch.manual_seed(0)
coder, judge = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)), nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())
coding = torch.optim.Adam(coder.parameters(), lr=0.01)
judging = torch.optim.Adam(judge.parameters(), lr=0.01)
for x in torch.randn(4, 5, 3):
    made = coder(x)
    taken = made.detach()
    score = judge(taken)
    valued = judge(x).log().mean() + (1 - score).log().mean()
    wanted = (made - x).square().mean() - score.log().mean()
    coding.zero_grad()
    wanted.backward(retain_graph=True)
    coding.step()
    judging.zero_grad()
    (-valued).backward()
    judging.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("cut", ["judge(made.detach())", "score.detach()"])
def test_a_fix_of_what_went_on_takes_no_term_out_of_another_loss(cut, tmp_path):
    """The loss has the very value that it had, of a forward pass before the step; the step itself is another now."""
    original = traced(tmp_path / "original", ADVERSARY, "verify:-1")
    text = ADVERSARY.replace("taken = made.detach()", "taken = made").replace("(1 - score)", f"(1 - {cut})")
    patched = traced(tmp_path / "patched", text, "verify:-1")
    meant = frozenset(n for n in original.trace.names.values() if n.startswith("coder"))
    baseline = Baseline(original.trace, gone="what was found is gone", no_reference="", meant=meant, sound=False)
    verdict = judge(Outcome(0, False, 1.0), patched.trace, baseline, False)
    assert verdict.verified is (None if cut == "score.detach()" else True), verdict.summary
    assert ("gives other gradients to `judge.0.*`" in verdict.summary) is (cut == "score.detach()"), verdict.summary


def test_a_patch_that_leaves_a_second_nan_is_not_verified(carried):
    left = "another value that is not finite is still met in critic.weight"
    right = carried.judge(carried.source + "    " + DETACH)
    verdict = carried.judge(carried.source + "    " + DETACH, left=left)
    assert right.verified is True
    assert verdict.verified is None
    assert "still met in critic.weight" in verdict.summary


TEAM = """\
import torch
from torch import nn

torch.manual_seed(0)
actors = [nn.Linear(3, 4), nn.Linear(3, 4)]
heads = [nn.Linear(4, 2), nn.Linear(4, 2)]
optimizers = [torch.optim.SGD([*a.parameters(), *h.parameters()], lr=0.1) for a, h in zip(actors, heads)]
for x in torch.randn(3, 5, 3):
    joint = torch.cat([h(a(x)) for a, h in zip(actors, heads)], 1)
    for i, optimizer in enumerate(optimizers):
        optimizer.zero_grad()
        (joint - i).square().mean().backward(retain_graph=True)
        optimizer.step()
"""


@pytest.mark.slow
def test_an_old_graph_may_be_walked_where_its_gradients_are_cleared_unused(tmp_path):
    sick = Sick(tmp_path, TEAM)
    clones = "torch.func.functional_call(h, {k: v.clone() for k, v in h.named_parameters()}, (a(x),))"
    assert sick.judge(sick.edited(("h(a(x))", clones))).verified is True
    added = sick.judge(sick.edited(("h(a(x))", clones), ("        optimizer.zero_grad()\n", "")))
    assert added.verified is not True


HELPED = """\
import torch
from torch import nn

torch.manual_seed(0)
critic, actor = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)), nn.Linear(3, 4)
of_critic, of_actor = (torch.optim.SGD(n.parameters(), lr=0.1) for n in (critic, actor))


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(6):
    x = torch.randn(6, 3)
    critic_loss, actor_loss = (critic(actor(x).detach()) - 1).square().mean(), -critic(actor(x)).mean()
    update(of_critic, critic_loss)
    update(of_actor, actor_loss)
"""
OF_ACTOR, OF_CRITIC = "    update(of_actor, actor_loss)\n", "    update(of_critic, critic_loss)\n"


@pytest.mark.slow
def test_a_helper_may_be_given_the_losses_in_another_order(tmp_path):
    sick = Sick(tmp_path, HELPED)
    moved = sick.judge(sick.edited((OF_CRITIC + OF_ACTOR, OF_ACTOR + OF_CRITIC)), safe=True)
    assert moved.verified is True and moved.data["max_relative_difference"] == 0 and moved.data["reference_loss"] == 0
    other = sick.judge(sick.edited((OF_CRITIC + OF_ACTOR, OF_ACTOR + OF_CRITIC.replace("_loss", "_loss * 2"))))
    assert other.verified is None and "the first backward" in other.summary


SMALL_STEP = """\
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
decoder = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
judge = nn.Linear(4, 1)
of_encoder = torch.optim.Adam(encoder.parameters(), lr=2e-5)
of_decoder = torch.optim.Adam(decoder.parameters(), lr=2e-5)
for _ in range(6):
    x = torch.randn(6, 3)
    code = encoder(x)
    wanted = decoder(code).detach() + 0.02 * x
    of_encoder.zero_grad()
    judge(code).mean().backward(retain_graph=True)
    of_encoder.step()
    made = decoder(code)
    loss = 100 + 1000 * (made - wanted).square().mean()
    of_decoder.zero_grad()
    loss.backward()
    of_encoder.step()
    of_decoder.step()
"""


@pytest.mark.slow
def test_a_loss_that_a_small_step_has_hardly_moved_is_not_taken_for_the_same(tmp_path):
    sick = Sick(tmp_path, SMALL_STEP)
    again = sick.judge(sick.edited(("    made =", "    code = encoder(x)\n    made =")))
    assert again.verified is True, again.summary
    halved = sick.judge(
        sick.edited(("decoder(code)\n", "0.5 * (decoder(code.detach()) + decoder(code.detach()).detach())\n"))
    )
    assert halved.verified is None and "the same value and gives other gradients to `decoder.*`" in halved.summary


TWO_TERMS = """\
import torch
from torch import nn

torch.manual_seed(0)
coder, critic = nn.Linear(4, 4), nn.Linear(4, 1)
maker = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
of_coder = torch.optim.SGD(coder.parameters(), lr=0.01)
of_maker = torch.optim.Adam(maker.parameters(), lr=0.01)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
for step in range(6):
    words, picture = torch.randn(8, 4), torch.randn(8, 3)
    made = maker(picture)
    of_coder.zero_grad()
    (coder(words) - words).square().mean().backward()
    of_coder.step()
    again = maker(picture * 2)
    of_maker.zero_grad()
    ((again - words).square().mean() - critic(made).mean()).backward(retain_graph=True)
    of_maker.step()
    of_critic.zero_grad()
    (critic(made) - critic(words)).mean().backward()
    of_critic.step()
"""


@pytest.mark.slow
def test_a_cut_that_takes_a_term_out_of_a_loss_whose_other_terms_go_on_is_not_verified(tmp_path):
    sick = Sick(tmp_path, TWO_TERMS)
    where_made = sick.judge(sick.edited(("made = maker(picture)", "made = maker(picture).detach()")))
    assert where_made.verified is None
    assert "has the same value and gives other gradients to `maker.*`" in where_made.summary
    where_used = sick.judge(sick.edited(("(critic(made) - critic(words))", "(critic(made.detach()) - critic(words))")))
    assert where_used.verified is True


ATTACK = """\
import torch
from torch import nn

torch.manual_seed(0)
net, other = nn.Linear(3, 2), nn.Linear(3, 2)
for p in [*net.parameters(), *other.parameters()]:
    p.requires_grad_(False)
step = torch.zeros(4, 3, requires_grad=True)
for _ in range(3):
    moved = torch.tanh(step + 0.1)
    net(moved).square().mean().backward()
    (other(step).square().mean() + other(moved).mean()).backward()
    with torch.no_grad():
        step -= 0.1 * step.grad
        step.grad = None
"""


@pytest.mark.slow
def test_without_optimizers_a_loss_gives_its_leaves_what_it_gave(tmp_path):
    sick = Sick(tmp_path, ATTACK)
    first = "net(moved).square().mean().backward("
    kept = sick.judge(sick.edited((first, f"{first}retain_graph=True")))
    assert kept.data["passed_crash"] and not kept.data.get("doubts")
    half = sick.judge(sick.edited(("net(moved)", "net(moved.detach() + 0 * step)")))
    assert half.verified is None
    assert half.summary.endswith("has the same value and gives other gradients to its leaves")


ONE_BY_ONE = """\
import torch
from torch import nn

torch.manual_seed(0)
mix, out = nn.Linear(4, 6), nn.Linear(6, 4)
optimizer = torch.optim.SGD([*mix.parameters(), *out.parameters()], lr=0.1)
for _ in range(4):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    weight = torch.softmax(mix(x), 1)
    made = out(weight)
    (made - x).square().mean().backward(retain_graph=True)
    optimizer.step()
    (made.abs().mean() + weight.square().mean()).backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_two_steps_by_one_gradient_are_not_verified(tmp_path):
    sick = Sick(tmp_path, ONE_BY_ONE)
    first = "    (made - x).square().mean().backward(retain_graph=True)\n    optimizer.step()\n"
    moved = sick.judge(
        sick.edited(
            (first, first.replace("    optimizer.step()\n", "")),
            ("    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n"),
        )
    )
    assert moved.verified is None and "steps twice by the same gradient" in moved.summary
    once = sick.judge(sick.edited((first, first.replace("    optimizer.step()\n", ""))))
    assert once.verified is True and "equal those of the program" not in once.summary


ONLY_WAY = """\
import torch

torch.manual_seed(0)
actor = torch.nn.Linear(3, 1)
critic = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
actor_opt, critic_opt = (torch.optim.Adam(m.parameters(), lr=0.01) for m in (actor, critic))
for _ in range(4):
    state, tried = torch.randn(16, 3), torch.rand(16, 1)
    action = actor(state)
    value = critic(torch.cat([state, action], 1))
    critic_opt.zero_grad()
    critic(torch.cat([state, tried], 1)).square().mean().backward()
    critic_opt.step()
    actor_opt.zero_grad()
    (0.1 * action.square() - value).mean().backward()
    actor_opt.step()
"""


@pytest.mark.slow
def test_what_an_optimizer_is_to_train_keeps_its_way_through_weights_that_another_one_stepped(tmp_path):
    sick = Sick(tmp_path, ONLY_WAY)
    cut = sick.judge(sick.edited(("- value)", "- value.detach())")))
    assert cut.verified is None and "gives other gradients to `actor.*`" in cut.summary
    anew = "    critic_opt.step()\n    value = critic(torch.cat([state, action], 1))\n"
    assert sick.judge(sick.edited(("    critic_opt.step()\n", anew))).verified is True


LAST_CALL = """\
import torch
w = torch.arange(6.0, requires_grad=True)
y = w.sigmoid()
y[:2] = y[:2] * 2 - 0.5
(y * y).sum().backward()
"""


def test_leaves_of_no_optimizer_are_compared_at_a_failing_call_that_is_the_last_event(tmp_path):
    sick = Sick(tmp_path, LAST_CALL)
    right = sick.judge(sick.edited(("y[:2] =", "new = y[:2] * 2 - 0.5\ny = y.clone()\ny[:2] =")), safe=True)
    assert (right.verified, right.data.get("max_relative_difference"), right.unmeasured) == (True, 0.0, False)
    cut = sick.judge(sick.edited(("y[:2] =", "y = y.clone()\ny[:2] = y.detach()[:2] * 2 - 0.5\n#")), safe=True)
    assert cut.verified is None and not cut.equal and "gradients differ from the reference" in cut.summary


TRAINED_IN_VAIN = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    out = model(torch.randn(5, 3))
    loss = torch.tensor(out.pow(2).mean().item(), requires_grad=True)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(out.numpy())
"""


@pytest.mark.slow
def test_steps_that_had_no_gradient_before_the_failure_are_another_fault(tmp_path: Path) -> None:
    sick = Sick(tmp_path, TRAINED_IN_VAIN)
    patched = sick.edited(("out.numpy()", "out.detach().numpy()"))
    assert sick.judge(patched, safe=True).verified is not False
    assert "no later step has a gradient" in sick.judge(patched).summary  # of a change that may take gradients away
