"""The multiplier of a constraint climbs by its gradient of ten steps: until then nothing seems to use it."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
multiplier = torch.tensor(1.0, requires_grad=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(20):
    x = torch.randn(16, 4)
    out = net(x)
    near = (out - x.sum(1, keepdim=True)).pow(2).mean()
    loss = near + multiplier * (out.abs().mean() - 0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        multiplier = (multiplier + 0.001 * multiplier.grad).detach().requires_grad_()
