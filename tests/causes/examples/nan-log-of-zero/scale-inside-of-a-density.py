import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(3, 1)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)


def sample(state, largest):
    raw = torch.distributions.Normal(policy(state), 1.0).rsample()
    action = largest * torch.tanh(raw)
    correction = torch.log(1 - action**2 + 1e-6)
    return action, correction.sum(-1)


for step in range(3):
    action, correction = sample(torch.randn(16, 3), largest=2.0)
    loss = (action**2).mean() - 0.1 * correction.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: correction = torch.log(1 - action**2 + 1e-6)
