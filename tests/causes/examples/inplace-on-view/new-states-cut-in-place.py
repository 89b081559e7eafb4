"""What no view stands behind may be cut in place: the state is a result of its own."""

import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state = torch.zeros(2, 5)
for _ in range(3):
    state = cell(torch.randn(2, 3), state)
    optimizer.zero_grad()
    head(state).square().mean().backward()
    optimizer.step()
    state.detach_()
