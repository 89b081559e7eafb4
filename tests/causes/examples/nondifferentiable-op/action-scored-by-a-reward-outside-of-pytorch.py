"""A drawn action is scored by one number that a simulator returns for it; the critic is given the same action."""

import torch
from torch import nn

torch.manual_seed(0)
policy, critic = nn.Linear(3, 2), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-2)
for _ in range(12):
    state = torch.randn(1, 3)
    mean = policy(state)
    action = torch.normal(mean, torch.ones_like(mean))
    reward = -float(abs(action.detach().numpy() - state[:, :2].numpy()).sum())
    value = critic(torch.cat([state, action], -1)).squeeze()
    score = -0.5 * (action.detach() - mean).square().sum()
    loss = (value - reward).square() - reward * score
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
