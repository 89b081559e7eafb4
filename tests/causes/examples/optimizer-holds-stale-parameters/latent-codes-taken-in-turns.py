import torch
from torch import nn

torch.manual_seed(0)
decoder = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
codes = [nn.Parameter(torch.randn(3)) for _ in range(4)]
optimizer = torch.optim.Adam(codes)
for i in range(20):
    optimizer.zero_grad()
    decoder(codes[i % 2]).pow(2).mean().backward()
    optimizer.step()
