"""An actor that learns by the log-probability of each single action, and a critic of the action, in one loss."""

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
actor, critic = nn.Linear(3, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
for _ in range(12):
    state = torch.randn(3)
    mean, spread = actor(state).chunk(2, dim=-1)
    ways = Normal(mean, spread.exp())
    action = ways.sample()
    reward = -float((action - state[:1]).square())
    value = critic(torch.cat((state, action))).squeeze()
    loss = (value - reward) ** 2 - ways.log_prob(action).sum() * (reward - value.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
