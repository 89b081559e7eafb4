"""The nested lists are a second way to the layers; the module knows them by their own attributes."""

import torch
from torch import nn


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 1)
        self.order = [[self.first, nn.Tanh()], [self.second, nn.Tanh()]]
        self.options = [["first", 0.1], {"rate": [1, 2]}]

    def forward(self, x):
        for linear, act in self.order:
            x = act(linear(x))
        return self.out(x)


torch.manual_seed(0)
net = Pairs()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    x = torch.randn(8, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
