"""The optimizer of what is frozen steps as well: it has nothing to do."""

import torch
from torch import nn

torch.manual_seed(0)
trunk, head = nn.Linear(3, 8), nn.Linear(8, 1)
trunk.requires_grad_(False)
optimizers = [torch.optim.Adam(trunk.parameters()), torch.optim.Adam(head.parameters())]
for _ in range(10):
    loss = head(trunk(torch.randn(8, 3))).pow(2).mean()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
