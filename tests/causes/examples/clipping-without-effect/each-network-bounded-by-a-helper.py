"""One helper makes the steps of both optimizers, and bounds the gradients of all networks in front of either."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

torch.manual_seed(0)
actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)


def learn(loss, optimizer):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
    nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
    optimizer.step()


for _ in range(9):
    state, action, outcome = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16)
    value = critic(state).squeeze(1)
    learn(mse_loss(value, outcome), critic_opt)
    advantage = outcome - value.detach()
    learn((cross_entropy(actor(state), action, reduction="none") * advantage).mean(), actor_opt)
