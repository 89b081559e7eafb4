"""An update that one statement makes as a whole comes before the one that steps too early, where both clear first."""

from __future__ import annotations

import pytest
from seen import observe

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
critic, actor = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)), nn.Linear(3, 4)
of_critic, of_actor = (torch.optim.Adam(n.parameters(), lr=1e-2) for n in (critic, actor))


def update(optimizer, loss):
    {clear}
    loss.backward()
    optimizer.step()


def update_both(critic_loss, actor_loss):
    update(of_critic, critic_loss)
    {between}
    update(of_actor, actor_loss)
    of_critic.zero_grad()


for _ in range(3):
    x = torch.randn(6, 3)
    critic_loss = (critic(actor(x).detach()) - 1).square().mean()
    update_both(critic_loss, -critic(actor(x)).mean())
"""


def moves(tmp_path, clear: str = "optimizer.zero_grad()", between: str = "pass") -> list[str]:
    seen = observe(tmp_path, PROGRAM.format(clear=clear, between=between))
    assert seen.slugs == ["optimizer-step-before-backward"], seen.result.stderr
    return [r.title for r in seen.found[0].finding.remedies if r.kind == "move_statement"]


def test_the_later_update_is_made_first(tmp_path):
    assert moves(tmp_path) == ["make the update at train.py:18 before the one at train.py:16"]


@pytest.mark.parametrize(
    ("clear", "between"),
    [
        ("pass", "pass"),  # what one loss leaves would be stepped with by the other
        ("optimizer.zero_grad()", "actor_loss = actor_loss * 2"),  # what it takes is bound in between
    ],
)
def test_it_stays_where_the_order_means_something(tmp_path, clear, between):
    assert moves(tmp_path, clear, between) == []
