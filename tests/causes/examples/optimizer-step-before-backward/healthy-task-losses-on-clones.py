"""The same sum, its forwards run on clones of the weights: the inner steps write into the parameters, not into these."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
inner = torch.optim.SGD(net.parameters(), lr=0.05)
outer = torch.optim.Adam(net.parameters(), lr=1e-3)


def loss_of(x, y):
    weights = {name: p.clone() for name, p in net.named_parameters()}
    return (torch.func.functional_call(net, weights, (x,)) - y).square().mean()


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
