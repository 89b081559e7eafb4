import torch
from torch import nn


class Branches(nn.Module):
    def __init__(self, branches):
        super().__init__()
        self._branches = None
        if branches:
            self._branches = []
            for branch in branches:
                self._branches.append(branch)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self._branches], 1)


torch.manual_seed(0)
first, last = nn.Linear(4, 6), nn.Linear(6, 2)
net = nn.Sequential(first, Branches([nn.Linear(6, 3), nn.Linear(6, 3)]), last)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    sgd.zero_grad()
    net(torch.randn(3, 4)).pow(2).mean().backward()
    sgd.step()

# told at: self._branches = []
