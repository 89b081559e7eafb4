"""Every task starts from the saved weights: restoring them writes into what the sum of the losses still needs."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
inner = torch.optim.SGD(net.parameters(), lr=0.05)
outer = torch.optim.Adam(net.parameters(), lr=1e-3)


def loss_of(x, y):
    return (net(x) - y).square().mean()


for iteration in range(3):
    start = copy.deepcopy(net.state_dict())
    total = 0
    for task in range(3):
        inner.zero_grad()
        loss_of(torch.randn(6, 4), torch.randn(6, 1)).backward()
        inner.step()
        total += loss_of(torch.randn(6, 4), torch.randn(6, 1))
        net.load_state_dict(start)
    outer.zero_grad()
    total.backward()
    outer.step()

# told at: net.load_state_dict(start)
# fails: modified by an inplace operation
