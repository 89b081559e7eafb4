"""One helper makes the steps of both optimizers, and bounds the critic's gradients in front of either."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

torch.manual_seed(0)
trunk, actor, critic = nn.Linear(4, 16), nn.Linear(16, 3), nn.Linear(16, 1)
actor_opt = torch.optim.SGD([*trunk.parameters(), *actor.parameters()], lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)


def learn(loss, optimizer):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
    optimizer.step()


for _ in range(9):
    state, action, outcome = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16)
    learn(mse_loss(critic(torch.relu(trunk(state)).detach()).squeeze(1), outcome), critic_opt)
    hidden = torch.relu(trunk(state))
    advantage = outcome - critic(hidden.detach()).squeeze(1).detach()
    learn((cross_entropy(actor(hidden), action, reduction="none") * advantage).mean(), actor_opt)

# told at: nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
