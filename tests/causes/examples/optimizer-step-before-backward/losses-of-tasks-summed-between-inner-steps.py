"""Each task takes an inner step before its loss is added up: the sum needs the weights of every task's forward."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
inner = torch.optim.SGD(net.parameters(), lr=0.05)
outer = torch.optim.Adam(net.parameters(), lr=1e-3)


def loss_of(x, y):
    return (net(x) - y).square().mean()


for iteration in range(3):
    total = 0
    for task in range(3):
        inner.zero_grad()
        loss_of(torch.randn(6, 4), torch.randn(6, 1)).backward()
        inner.step()
        total += loss_of(torch.randn(6, 4), torch.randn(6, 1))
    outer.zero_grad()
    total.backward()
    outer.step()

# told at: inner.step()
# fails: modified by an inplace operation
