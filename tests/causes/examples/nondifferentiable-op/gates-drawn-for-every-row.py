"""Gates are drawn from learned probabilities: no gradient comes back to these."""

import torch
from torch import nn

torch.manual_seed(0)
gate, body = nn.Linear(6, 8), nn.Sequential(nn.Linear(6, 8), nn.ReLU())
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*gate.parameters(), *body.parameters(), *head.parameters()], lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 6)
    open_ = torch.bernoulli(torch.sigmoid(gate(x)))
    loss = (head(body(x) * open_) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: open_ = torch.bernoulli(torch.sigmoid(gate(x)))
