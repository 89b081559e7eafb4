import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
initial = net
optimizer = torch.optim.Adam(net.parameters())
net = copy.deepcopy(net)
for _ in range(12):
    optimizer.zero_grad()
    net(torch.randn(8, 3)).pow(2).mean().backward()
    optimizer.step()

# told at: net = copy.deepcopy(net)
