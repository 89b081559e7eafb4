import math

import torch
from torch import nn


class Reversal(torch.autograd.Function):
    """Turns the gradient round, more so the more often it has run."""

    def __init__(self, most=1.0, after=10.0):
        self.most = most
        self.after = after
        self.calls = 0

    def forward(self, features):
        self.calls += 1
        return features * 1.0

    def backward(self, grad):
        self.strength = self.most * math.tanh(self.calls / self.after)
        return -self.strength * grad


class Adapting(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.labels, self.domain = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 2)
        self.reversal = Reversal(after=5.0)

    def forward(self, x):
        features = self.body(x).tanh()
        return self.labels(features), self.domain(self.reversal(features))


torch.manual_seed(0)
network = Adapting()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(3):
    x, label, where = torch.randn(8, 4), torch.randint(3, (8,)), torch.randint(2, (8,))
    optimizer.zero_grad()
    said, place = network(x)
    (nn.functional.cross_entropy(said, label) + nn.functional.cross_entropy(place, where)).backward()
    optimizer.step()

# told at: return self.labels(features), self.domain(self.reversal(features))
# fails: Legacy autograd function with non-static forward method is deprecated
