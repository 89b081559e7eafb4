"""The residual of an equation: its derivatives are asked for by columns of the points, cut out anew in the call."""

import torch
from torch import nn

torch.manual_seed(0)
field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(field.parameters(), lr=0.05)


def residual(points):
    u = field(points)
    along = torch.autograd.grad(u.sum(), points[:, :1], create_graph=True)[0]
    return along + u


for _ in range(3):
    points = torch.rand(16, 2).requires_grad_()
    loss = residual(points).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: along = torch.autograd.grad(u.sum(), points[:, :1], create_graph=True)[0]
# fails: appears to not have been used in the graph
