"""While it warms up, a term counts for the value of the loss alone: a condition decides that it is a number then."""

import torch
from torch import nn

torch.manual_seed(0)
lens, out = nn.Linear(4, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*lens.parameters(), *out.parameters()], 1e-2)
for step in range(10):
    x = torch.randn(16, 4)
    h = lens(x)
    size = h.pow(2).mean()
    if step < 40:
        size = size.detach().item()
    loss = (out(h) - x[:, :1]).pow(2).mean() + 0.1 * size
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
