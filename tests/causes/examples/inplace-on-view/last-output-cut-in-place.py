"""The last output of a sequence is kept for the next window, and cut with a method that views refuse."""

import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRU(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state = torch.zeros(1, 2, 5)
for _ in range(3):
    out, _ = cell(torch.randn(6, 2, 3), state)
    state = out[-1:]
    optimizer.zero_grad()
    head(out).square().mean().backward()
    optimizer.step()
    state.detach_()

# told at: state.detach_()
# fails: Can't detach views in-place
