import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(2, 6), nn.Linear(6, 1)
x, h = torch.randn(5, 3, 2), torch.zeros(3, 6)
outputs = torch.empty(5, 3, 6)
for t in range(5):
    h = cell(x[t], h)
    outputs[t] = h
head(outputs).pow(2).mean().backward()
