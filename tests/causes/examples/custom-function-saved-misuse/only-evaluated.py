"""A Function without a backward, which only an evaluation applies."""

import torch
from torch import nn

torch.manual_seed(0)


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        return x / (width + x.abs())


net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        print(Squash.apply(net(torch.ones(1, 4)), 2.0).sum().item() < 4)
