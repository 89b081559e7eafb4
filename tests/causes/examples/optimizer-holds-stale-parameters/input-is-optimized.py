import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
image = nn.Parameter(torch.randn(4, 3))
unused = nn.Parameter(torch.randn(3))
optimizer = torch.optim.Adam([image])
for _ in range(12):
    optimizer.zero_grad()
    net(image).pow(2).mean().backward()
    optimizer.step()
