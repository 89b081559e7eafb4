import torch
from torch import nn
from torch.autograd import Function


class Reversal(Function):
    """Passes features on and turns their gradient round."""

    def __init__(self, strength):
        self.strength = strength

    def forward(self, x):
        return x.view_as(x)

    def backward(self, grad):
        return -self.strength * grad


def reverse(x, strength=1.0):
    return Reversal(strength)(x)


torch.manual_seed(0)
features, domain = nn.Linear(4, 6), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*features.parameters(), *domain.parameters()], lr=0.1)
for step in range(3):
    x, where = torch.randn(8, 4), torch.randint(0, 2, (8,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(domain(reverse(features(x), 0.5)), where).backward()
    optimizer.step()

# told at: return Reversal(strength)(x)
# fails: Legacy autograd function with non-static forward method is deprecated
