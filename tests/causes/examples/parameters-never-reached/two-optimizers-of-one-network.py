"""Two optimizers hold one network and take turns; a network that nobody trains judges it in between."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
coarse = torch.optim.SGD(net.parameters(), lr=1e-2)
fine = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(12):
    x = torch.randn(16, 3)
    coarse.zero_grad()
    nn.functional.mse_loss(net(x)[:, :3], x).backward()
    coarse.step()
    fine.zero_grad()
    judge(net(x)).mean().backward()
    fine.step()
