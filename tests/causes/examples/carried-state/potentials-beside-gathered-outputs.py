"""Spiking layers keep their potential; the outputs of each pass are gathered in a list that is new in each iteration."""

import torch
from torch import nn
from torch.nn.functional import mse_loss


class Leaky(nn.Module):
    def __init__(self):
        super().__init__()
        self.potential = torch.zeros(1)

    def forward(self, x):
        self.potential = 0.9 * self.potential + x
        return torch.sigmoid(self.potential), self.potential


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.fc1 = Leaky(), nn.Linear(4, 8)
        self.outer, self.fc2 = Leaky(), nn.Linear(8, 1)

    def forward(self, x):
        spikes, _ = self.inner(self.fc1(x))
        return self.outer(self.fc2(spikes))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    x, gathered = torch.randn(16, 4), []
    for _ in range(3):
        spikes, potential = net(x)
        gathered.append(potential)
    loss = sum(mse_loss(p, x[:, :1]) for p in gathered)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.potential = 0.9 * self.potential + x
# fails: backward through the graph a second time
