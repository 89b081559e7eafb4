import torch
from torch import nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution

torch.manual_seed(0)
policy = nn.Linear(3, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)


def likelihood(state, action):
    raw = Normal(policy(state), 1.0, validate_args=False)
    density = TransformedDistribution(raw, [TanhTransform()], validate_args=False)
    return density.log_prob(action).sum(-1)


for step in range(2):
    state = torch.randn(16, 3)
    expert = (state[:, :2] + 0.5 * state[:, 2:]).clamp(-1.0, 1.0)
    loss = -likelihood(state, expert).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return density.log_prob(action).sum(-1)
