import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
hidden = torch.zeros(1, 8)
for _ in range(3):
    hidden = cell(torch.randn(1, 3), hidden.detach())
    loss = head(hidden).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
