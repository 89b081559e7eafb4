import copy

import torch
from torch import nn
from torch.nn import functional as F


class Rounded(nn.Module):
    def forward(self, z):
        return z + (z.round() - z).detach()


class Student(nn.Module):
    """A network and a slow copy of it; the optimizer is given both, and only one has gradients."""

    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(6, 4), Rounded(), nn.Linear(4, 3))
        self.slow = copy.deepcopy(self.online)

    def forward(self, x):
        return F.mse_loss(self.online(x), self.slow(x + 0.1 * torch.randn_like(x)).detach())


torch.manual_seed(0)
model = Student()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(12):
    loss = model(torch.randn(16, 6))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
