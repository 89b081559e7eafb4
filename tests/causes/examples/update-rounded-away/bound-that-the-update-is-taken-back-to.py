"""The perturbation is at its bound from the start: each step leaves the ball, and is projected back."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Linear(32, 4).bfloat16().requires_grad_(False)
x = torch.randn(8, 32).bfloat16()
y, eps = net(x).argmax(1), 0.125
first = torch.zeros_like(x, requires_grad=True)
F.cross_entropy(net(x + first).float(), y).backward()
delta = nn.Parameter(eps * first.grad.sign())
optimizer = torch.optim.SGD([delta], lr=0.03125)
for _ in range(12):
    loss = -F.cross_entropy(net(x + delta).float(), y)
    optimizer.zero_grad()
    loss.backward()
    delta.grad.sign_()
    optimizer.step()
    delta.data.clamp_(-eps, eps)
