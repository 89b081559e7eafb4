import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam(head.parameters())
for _ in range(12):
    optimizer.zero_grad()
    head(backbone(torch.randn(8, 3))).pow(2).mean().backward()
    optimizer.step()
