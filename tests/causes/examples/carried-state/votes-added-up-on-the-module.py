"""An ensemble adds its members' votes to an attribute which only `__init__` sets to zero."""

import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.members = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)) for _ in range(count))
        self.votes = torch.zeros(5, 3)

    def forward(self, x):
        for member in self.members:
            self.votes += member(x)
        return self.votes / len(self.members)


torch.manual_seed(0)
model = Ensemble(2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(5, 4)), torch.tensor([0, 1, 2, 0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.votes += member(x)
# fails: backward through the graph a second time
