"""Updates in another order: each loss with the weights of its own forward, each optimizer with its own loss."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from marked import fixed, unmark
from training import Case, check_built, check_proposed, proposed

from graphdoc.fixes.fix_kind import CannotFix

TWO = """\
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
nets = [actor, critic]
x, y = torch.randn(6, 3), torch.randn(6, 1)
of_actor = torch.optim.Adam(actor.parameters(), lr=1e-2)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-2)
"""

CASES = [
    Case(
        "backward_once",
        start=TWO,
        args={"first": "stays", "goes": "@1"},
        sick="""\
        for step in range(4):
            out = actor(x)
            loss = critic(out).square().mean() + out.square().mean()
            of_critic.zero_grad()
            «loss.backward(retain_graph=True)»
            of_critic.step()

            of_actor.zero_grad()
            «loss.backward()»
            of_actor.step()
        """,
        right="""\
        for step in range(4):
            out = actor(x)
            loss = critic(out).square().mean() + out.square().mean()
            parameters = [*actor.parameters(), *critic.parameters()]
            for p, g in zip(parameters, torch.autograd.grad(loss, parameters)):
                p.grad = g
            of_critic.step()
            of_actor.step()
        """,
    ),
    Case(
        "step_behind_loop",
        start=TWO,
        args={"first": "backward", "step": "@1"},
        sick="""\
        for epoch in range(3):
            rows = critic(actor(x).detach())
            for i in range(len(rows)):
                loss = (rows[i] - y[i]).square().sum()
                of_critic.zero_grad()
                «loss.backward(retain_graph=True)»
                «of_critic.step()»
        """,
        right="""\
        for epoch in range(3):
            of_critic.zero_grad()
            for i in range(6):
                (critic(actor(x[i : i + 1]).detach())[0] - y[i]).square().sum().backward()
            of_critic.step()
        """,
        near="one row at a time is computed in another order",
    ),
    Case(
        "steps_last",
        start=TWO,
        args={"first": "step", "backward": "@1"},
        sick="""\
        for step in range(4):
            out = actor(x)
            critic_loss = (critic(out.detach()) - y).square().mean()
            actor_loss = -critic(out).mean()
            of_critic.zero_grad()
            critic_loss.backward()
            «of_critic.step()»
            of_actor.zero_grad()
            «actor_loss.backward()»
            of_actor.step()
        """,
        right="""\
        for step in range(4):
            out = actor(x)
            of_actor_first = torch.autograd.grad(-critic(out).mean(), list(actor.parameters()))
            of_critic_first = torch.autograd.grad((critic(out.detach()) - y).square().mean(), list(critic.parameters()))
            for n, grads in ((actor, of_actor_first), (critic, of_critic_first)):
                for p, g in zip(n.parameters(), grads):
                    p.grad = g
            of_critic.step()
            of_actor.step()
        """,
    ),
    Case(
        "steps_behind_rounds",
        start=TWO,
        args={"first": "backward", "step": "@1"},
        sick="""\
        for step in range(4):
            out = actor(x)
            losses = [out.square().mean(), (critic(out) - y).square().mean()]
            for optimizer, loss in zip([of_actor, of_critic], losses):
                optimizer.zero_grad()
                «loss.backward(retain_graph=loss is losses[0])»
                «optimizer.step()»
        """,
        right="""\
        for step in range(4):
            out = actor(x)
            losses = [out.square().mean(), (critic(out) - y).square().mean()]
            for n, loss in zip([actor, critic], losses):
                for p, g in zip(n.parameters(), torch.autograd.grad(loss, list(n.parameters()), retain_graph=True)):
                    p.grad = g
            of_actor.step()
            of_critic.step()
        """,
    ),
    Case(
        "rows_of_buffer",
        start=TWO,
        args={"first": "read"},
        sick="""\
        optimizers = [of_actor, of_critic]
        rows = torch.randn(4, 3), torch.randn(4, 2)
        for step in range(3):
            values = torch.zeros(2, 4)
            for i in range(2):
                for t in range(4):
                    values[i, t] = nets[i](rows[i][t]).sum()
            for i, optimizer in enumerate(optimizers):
                loss = «values[i]».square().mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
        """,
        right="""\
        rows = torch.randn(4, 3), torch.randn(4, 2)
        for step in range(3):
            for net, row, optimizer in zip(nets, rows, (of_actor, of_critic)):
                optimizer.zero_grad()
                torch.stack([net(one).sum() for one in row]).square().mean().backward()
                optimizer.step()
        """,
    ),
    Case(
        "update_before",
        start=TWO,
        args={"first": None, "places": ["@0"], "steps": ["@1"]},
        sick="""\
        for step in range(4):
            out = actor(x)
            critic_loss = (critic(out.detach()) - y).square().mean()
            actor_loss = 0
            «actor_loss += -critic(out).mean()»
            of_critic.zero_grad()
            critic_loss.backward()
            «of_critic.step()»
            of_actor.zero_grad()
            actor_loss.backward()
            of_actor.step()
        """,
        right="""\
        for step in range(4):
            out = actor(x)
            parameters = list(critic.parameters())
            gradients = torch.autograd.grad((critic(out.detach()) - y).square().mean(), parameters)
            for p, g in zip(parameters, gradients):
                p.grad = g
            of_critic.step()
            parameters = list(actor.parameters())
            for p, g in zip(parameters, torch.autograd.grad(-critic(out).mean(), parameters)):
                p.grad = g
            of_actor.step()
        """,
    ),
    Case(
        "steps_last",
        start=TWO
        + """\
second = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
nets.append(second)
of_second = torch.optim.Adam(second.parameters(), lr=1e-2)
twins = True
""",
        args={"first": "step", "others": ["@1"], "backward": "@2"},
        sick="""\
        for step in range(4):
            out = actor(x)
            actor_loss = -torch.min(critic(out), second(out)).mean()
            critic_loss = (critic(out.detach()) - y).square().mean()
            second_loss = (second(out.detach()) - y).square().mean()
            of_critic.zero_grad()
            critic_loss.backward()
            «of_critic.step()»
            if twins:
                of_second.zero_grad()
                second_loss.backward()
                «of_second.step()»
            of_actor.zero_grad()
            «actor_loss.backward()»
            of_actor.step()
        """,
        right="""\
        for step in range(4):
            out = actor(x)
            of_actor_first = torch.autograd.grad(-torch.min(critic(out), second(out)).mean(), list(actor.parameters()))
            for p, g in zip(actor.parameters(), of_actor_first):
                p.grad = g
            for net, opt in ((critic, of_critic), (second, of_second)):
                opt.zero_grad()
                (net(out.detach()) - y).square().mean().backward()
                opt.step()
            of_actor.step()
        """,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_trains_as_the_right_version(case: Case) -> None:
    check_built(case)


SICK_ONCE = """\
for step in range(4):
    loss = net(x).mean()
    one.zero_grad()
    «loss.backward(retain_graph=True)»
    one.step()
    {between}
    other.zero_grad()
    «loss.backward()»
    other.step()
"""


@pytest.mark.parametrize(
    ("between", "why"),
    [
        ("loss = loss + 1", "loss would have another value"),
        ("update(target, net)", "`update(target, net)` stands between"),
        ("norms.append(net.weight.grad.norm())", "weight.grad"),
        ("one.zero_grad()", "steps once with each"),
    ],
)
def test_one_call_is_refused_where_something_stands_between(between: str, why: str) -> None:
    with pytest.raises(CannotFix, match=re.escape(why)):
        fixed("backward_once", SICK_ONCE.format(between=between), "stays", goes="@1")


SICK_LOOP = """\
for row in rows:
    loss = f(row)
    opt.zero_grad()
    «loss.backward(retain_graph=True)»
    {between}
    «opt.step()»
"""


@pytest.mark.parametrize(
    ("between", "why"),
    [
        ("if loss < 0: break", "not every way"),
        ("norms.append(w.grad.norm())", "takes part in an update"),
        ("other.step()", "takes part in an update"),
        ("opt = build()", "opt would have another value"),
    ],
)
def test_a_step_stays_in_its_loop_where_the_loop_needs_it(between: str, why: str) -> None:
    with pytest.raises(CannotFix, match=why):
        fixed("step_behind_loop", SICK_LOOP.format(between=between), "backward", step="@1")


def test_what_limits_the_gradient_goes_with_the_step() -> None:
    clip = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
    text = fixed("step_behind_loop", SICK_LOOP.format(between=clip), "backward", step="@1")
    assert text.endswith(f"    loss.backward(retain_graph=True)\n{clip}\nopt.step()\n")
    assert text.startswith("opt.zero_grad()\nfor row in rows:\n    loss = f(row)\n")


SICK_LAST = """\
class Agent:
    def learn(self, x):
        q_loss = self.critic(x).mean()
        pi_loss = self.critic(self.actor(x)).mean()
        self.of_critic.zero_grad()
        q_loss.backward()
        «self.of_critic.step()»
        {between}
        self.of_actor.zero_grad()
        «pi_loss.backward()»
        self.of_actor.step()
"""


@pytest.mark.parametrize(
    ("between", "why"),
    [
        ("self.update_target()", "may use what the step changes"),
        ("soft_update(target, self.critic)", "may use what the step changes"),
        ("self.of_critic.zero_grad()", "stands between the step and the backward call"),
        ("norm = pi_loss.grad", "gradients are read"),
        ("self.of_critic = build()", "self.of_critic would have another value"),
        ("if x is None: return", "not every way"),
    ],
)
def test_a_step_is_moved_over_nothing_that_it_acts_upon(between: str, why: str) -> None:
    with pytest.raises(CannotFix, match=why):
        fixed("steps_last", SICK_LAST.format(between=between), "step", backward="@1")


@pytest.mark.parametrize("condition", ["self.due()", "step % 2 == 0"])
def test_a_step_under_a_condition_is_moved_where_its_answer_stays(condition: str) -> None:
    sick = SICK_LAST.replace("«self.of_critic.step()»", "if {condition}:\n            note()\n            {marked}")
    sick = sick.format(condition=condition, marked="«self.of_critic.step()»", between="self.count += 1")
    if condition == "self.due()":
        with pytest.raises(CannotFix, match="condition of the step"):
            fixed("steps_last", sick, "step", backward="@1")
        return
    lines = fixed("steps_last", sick, "step", backward="@1").splitlines()
    at = next(i for i, line in enumerate(lines) if "pi_loss.backward(" in line)
    assert lines[at + 1 : at + 3] == ["        if step % 2 == 0:", "            self.of_critic.step()"]
    with pytest.raises(CannotFix, match="step would have another value"):
        fixed("steps_last", sick.replace("self.count += 1", "step += 1"), "step", backward="@1")


def test_a_call_that_more_learn_from_than_step_behind_it_stays_as_it_is() -> None:
    with pytest.raises(CannotFix, match="which optimizers step"):
        fixed("steps_last", SICK_LAST.format(between="pass"), "step", backward="@1", learners=2)


@pytest.mark.parametrize("between", ["logger.store(q=q_loss)", "total = q_loss.item() + 1", "print(q_loss)", "pass"])
def test_a_step_is_moved_over_what_only_computes_or_notes(between: str) -> None:
    text = fixed("steps_last", SICK_LAST.format(between=between), "step", backward="@1")
    lines = [line.strip() for line in text.splitlines()]
    call = next(i for i, line in enumerate(lines) if line.startswith("pi_loss.backward("))
    assert lines[call] == 'pi_loss.backward(inputs=[p for g in self.of_actor.param_groups for p in g["params"]])'
    assert lines[call + 1] == "self.of_critic.step()" and lines.count("self.of_critic.step()") == 1


SICK_ROUNDS = """\
class Team:
    def learn(self, losses):
        for agent, loss in zip(self.agents, losses):
            agent.optimizer.zero_grad()
            «loss.backward(retain_graph=True)»
            {between}
            «agent.optimizer.step()»
            {behind}
"""


@pytest.mark.parametrize(
    ("between", "behind", "why"),
    [
        ("pass", "agent.update_target()", "may use what the step changes"),
        ("self.zero_grad()", "pass", "before the steps of earlier rounds"),
        ("norms.append(agent.w.grad.norm())", "pass", "takes part in an update"),
        ("agent = self.best()", "pass", "agent would have another value"),
        ("if loss < 0: break", "pass", "not every way"),
    ],
)
def test_steps_stay_in_their_rounds_where_these_need_them(between: str, behind: str, why: str) -> None:
    with pytest.raises(CannotFix, match=why):
        fixed("steps_behind_rounds", SICK_ROUNDS.format(between=between, behind=behind), "backward", step="@1")


def test_rounds_that_cannot_be_gone_through_again_keep_their_steps() -> None:
    sick = SICK_ROUNDS.format(between="pass", behind="pass").replace("zip(self.agents, losses)", "self.pairs(losses)")
    with pytest.raises(CannotFix, match="a second time"):
        fixed("steps_behind_rounds", sick, "backward", step="@1")
    same = SICK_ROUNDS.format(between="pass", behind="pass").replace("agent.optimizer", "self.optimizer")
    with pytest.raises(CannotFix, match="no variable of its loop"):
        fixed("steps_behind_rounds", same, "backward", step="@1")


@pytest.mark.parametrize("between", ["nn.utils.clip_grad_norm_(agent.parameters(), 1.0)", "print(loss.item())", "pass"])
def test_steps_of_rounds_come_in_a_loop_of_their_own(between: str) -> None:
    text = fixed("steps_behind_rounds", SICK_ROUNDS.format(between=between, behind="pass"), "backward", step="@1")
    assert 'inputs=[p for g in agent.optimizer.param_groups for p in g["params"]]' in text
    assert text.endswith(
        "            pass\n        for agent, loss in zip(self.agents, losses):\n            agent.optimizer.step()\n"
    )


@pytest.mark.breadth(4)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_order_is_proposed_where_a_step_came_too_early(case: Case, tmp_path: Path) -> None:
    check_proposed(Case(case.kind, unmark(case.sick)[0], case.right, case.start), tmp_path)


IN_HELPERS = """\
class Model:
    def note(self):
        self.best = [p.detach().clone() for p in critic.parameters()]

    def switch(self, nets, learns):
        for net in nets:
            for p in net.parameters():
                p.requires_grad = learns

    def backward_critic(self):
        self.critic_loss = (critic(self.out.detach()) - y).square().mean()
        self.critic_loss.backward()

    def backward_actor(self):
        self.actor_loss = self.rated + {own}
        self.actor_loss.backward(){behind}

    def optimize(self):
        self.out = actor(x)
        self.rated = -critic(self.out).mean()
        self.of_critic.zero_grad()
        self.backward_critic()
        self.of_critic.step()
        {between}
        self.of_actor.zero_grad()
        self.backward_actor()
        self.of_actor.step()

model = Model()
model.of_actor, model.of_critic = of_actor, of_critic
for step in range(4):
    model.optimize()
"""
RIGHT_IN_HELPERS = """\
for step in range(4):
    out = actor(x)
    loss = -critic(out).mean() + out.square().mean()
    of_actor_first = torch.autograd.grad(loss, list(actor.parameters()))
    of_critic.zero_grad()
    (critic(out.detach()) - y).square().mean().backward()
    of_critic.step()
    for p, g in zip(actor.parameters(), of_actor_first):
        p.grad = g
    of_actor.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("between", ["pass", "self.switch([actor], True)"])
def test_the_order_is_proposed_where_a_helper_calls_backward(between: str, tmp_path: Path) -> None:
    """The step is moved over what is computed for the loss, which takes up nothing of what the step writes."""
    sick = IN_HELPERS.format(own="self.out.square().mean()", behind="", between=between)
    check_proposed(Case("steps_last", sick, RIGHT_IN_HELPERS, TWO), tmp_path)


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("own", "behind", "between"),
    [
        ("self.out.square().mean()", "", "self.note()"),
        ("self.out.square().mean()", "; nn.utils.clip_grad_norm_(critic.parameters(), 1.0)", "pass"),
        ("critic(self.out).mean()", "", "pass"),
    ],
    ids=["unknown call", "gradients read in the helper", "taken up anew"],
)
def test_a_step_is_not_moved_over_a_helper_that_uses_what_it_writes(
    own: str, behind: str, between: str, tmp_path: Path
) -> None:
    kinds = {r.kind for r, _ in proposed(TWO + IN_HELPERS.format(own=own, behind=behind, between=between), tmp_path)}
    assert "steps_last" not in kinds and "clone_parameters" in kinds


UNREAD = """\
for step in range(4):
    fake = actor(x)
    score = critic(fake)
    of_critic.zero_grad()
    (critic(fake.detach()) - y).square().mean().backward()
    of_critic.step()
    rated = critic(fake)
    of_actor.zero_grad()
    loss = -{used}.mean()
    loss.backward()
    of_actor.step()
"""


def test_a_value_computed_anew_that_nothing_reads_is_used_instead(tmp_path: Path) -> None:
    check_proposed(Case("use_instead", UNREAD.format(used="score"), UNREAD.format(used="rated"), TWO), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [("rated = critic(fake)", "rated = critic(fake.detach())"), ("of_actor.zero_grad()", "print(rated.mean())")],
    ids=["another call", "it is read"],
)
def test_another_value_is_not_used_instead(old: str, new: str, tmp_path: Path) -> None:
    kinds = {r.kind for r, _ in proposed(TWO + UNREAD.format(used="score").replace(old, new), tmp_path)}
    assert kinds and "use_instead" not in kinds


def test_rounds_whose_optimizers_hold_frozen_parameters_ask_for_the_rest() -> None:
    sick = SICK_ROUNDS.format(between="pass", behind="pass")
    assert 'for p in g["params"] if p.requires_grad]' in fixed(
        "steps_behind_rounds", sick, "backward", step="@1", frozen=True
    )
    assert 'for p in g["params"]]' in fixed("steps_behind_rounds", sick, "backward", step="@1")
