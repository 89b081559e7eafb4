"""The scale waits for the second phase; its numbers, and those of the grid, are only written down."""

import torch
from torch import nn

torch.manual_seed(0)
grid, free = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(6, 4))
scale = nn.Parameter(torch.ones(4))
optimizer = torch.optim.Adam([grid, free, scale], lr=0.01)
log = []
for step in range(14):
    x = torch.randn(16, 6)
    on_grid = grid + (grid.round() - grid).detach()
    log.append((on_grid.abs().mean().tolist(), torch.tensor((scale * 2).tolist())))
    weight = on_grid + free
    if step >= 12:
        weight = weight * scale
    loss = (x @ weight).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
