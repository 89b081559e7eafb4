import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(2, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
hidden = torch.zeros(1, 6)
for window in range(3):
    losses = []
    for _ in range(4):
        hidden = cell(torch.randn(1, 2), hidden)
        losses.append(head(hidden).pow(2).mean())
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()
    optimizer.step()
    hidden = hidden.detach()
