"""An actor that learns by clipped ratios; its critic learns from returns that the drawn actions decide."""

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.policy = nn.Linear(16, 1)
        self.value = nn.Linear(16, 1)

    def forward(self, state):
        hidden = self.body(state)
        return Normal(self.policy(hidden).squeeze(-1), 1.0), self.value(hidden).squeeze(-1)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=0.01)
for _ in range(8):
    state = torch.randn(32, 4)
    policy, value = agent(state)
    action = policy.sample()
    returns = -(action - state.sum(1)).pow(2)
    advantage = returns - value
    ratio = (policy.log_prob(action) - policy.log_prob(action).detach()).exp()
    weight = advantage.detach()
    policy_loss = -torch.min(ratio * weight, ratio.clamp(0.8, 1.2) * weight).mean()
    loss = policy_loss + 0.5 * advantage.pow(2).mean() - 0.01 * policy.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
