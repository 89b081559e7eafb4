"""Densities of drawn actions, with their graph, train the policy; the critic is given the same action, in one loss."""

import torch
from torch import nn

torch.manual_seed(0)
policy, critic = nn.Linear(3, 2), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-2)
for _ in range(12):
    state = torch.randn(16, 3)
    mean = policy(state)
    action = torch.normal(mean, torch.ones_like(mean))
    reward = -(action.detach() - state[:, :2]).square().sum(-1)
    value = critic(torch.cat([state, action], -1)).squeeze(-1)
    score = -0.5 * (action - mean).square().sum(-1)
    advantage = (reward - value).detach()
    loss = -(score * advantage).mean() + (value - reward).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
