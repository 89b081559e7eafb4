"""What is rounded has another way of its own: a phase, a shrinkage, a straight-through grid, a distance to the grid."""

import torch
from torch import nn

torch.manual_seed(0)
phase, sparse, grid = (nn.Parameter(torch.randn(6, 4)) for _ in range(3))
free = nn.Parameter(torch.randn(6, 4))
optimizer = torch.optim.Adam([phase, sparse, grid, free], lr=0.01)
for _ in range(10):
    x = torch.randn(16, 6)
    turns = phase - phase.floor()
    shrunk = torch.sign(sparse) * torch.relu(sparse.abs() - 1.2)
    step = grid.abs().amax() / 7
    ratio = grid / step
    on_grid = (ratio + (ratio.round() - ratio).detach()) * step
    near = (free - free.round() * free.abs().mean()).pow(2).mean()
    loss = (x @ (turns + shrunk + on_grid + free)).pow(2).mean() + 0.1 * near
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
