"""A policy that draws its actions with `sample()` and learns by their log-probability; its critic reads them too."""

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
policy, critic, spare = nn.Linear(3, 2), nn.Linear(4, 1), nn.Linear(3, 1)
parts = [*policy.parameters(), *critic.parameters(), *spare.parameters()]
optimizer = torch.optim.Adam(parts, lr=1e-2)
for _ in range(12):
    state = torch.randn(16, 3)
    mean, spread = policy(state).chunk(2, dim=-1)
    ways = Normal(mean, spread.exp())
    action = ways.sample()
    reward = -(action - state[:, :1]).square()
    value = critic(torch.cat((state, action), -1))
    loss = -(ways.log_prob(action) * (reward - value.detach())).mean() + (value - reward).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
