import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.Linear(3, 3), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
memory = torch.zeros(2, 3)
for _ in range(4):
    memory.detach_().zero_()
    for x in torch.randn(5, 2, 3):
        memory = torch.tanh(cell(x + memory))
    optimizer.zero_grad()
    head(memory).square().mean().backward()
    optimizer.step()
