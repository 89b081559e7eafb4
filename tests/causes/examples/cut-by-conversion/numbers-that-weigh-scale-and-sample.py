import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")  # PyTorch says that a number is taken, as is meant
torch.manual_seed(0)
body, mean, worth = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(8, 1)
log_std = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([*body.parameters(), *mean.parameters(), *worth.parameters(), log_std], lr=0.01)
for _ in range(8):
    loss = torch.tensor(0.0)
    for _ in range(4):
        seen = torch.randn(3)
        hidden = torch.tanh(body(seen))
        hidden = hidden / (hidden.abs().max().item() + 1e-6)
        mu, value, std = mean(hidden)[0], worth(hidden)[0], log_std.exp()
        action = torch.tensor([mu + std * torch.randn(())])
        reward = -((action - seen[0]) ** 2)
        log_prob = -0.5 * ((action - mu) / std) ** 2 - log_std
        terms = [-(log_prob * (reward - value.item())).sum(), (value - reward).pow(2).sum()]
        weights = torch.tensor([1 / (1 + term.abs()) for term in terms])
        loss = loss + weights[0] * terms[0] + weights[1] * terms[1]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
