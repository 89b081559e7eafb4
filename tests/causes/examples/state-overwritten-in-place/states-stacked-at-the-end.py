import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(2, 6), nn.Linear(6, 1)
x = torch.randn(5, 3, 2)
h = [torch.zeros(3, 6)]
for t in range(5):
    h.append(cell(x[t], h[-1]))
loss = head(torch.stack(h[1:])).pow(2).mean()
loss.backward()
