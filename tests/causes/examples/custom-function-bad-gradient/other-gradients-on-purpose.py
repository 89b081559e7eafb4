import torch
from torch import nn
from torch.nn import functional as F


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -0.3 * grad


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + 10 * x.abs()) ** 2


class Bounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad


torch.manual_seed(0)
features, head, domain = nn.Linear(5, 32), nn.Linear(32, 1), nn.Linear(32, 2)
optimizer = torch.optim.Adam([*features.parameters(), *head.parameters(), *domain.parameters()], lr=1e-2)
for _ in range(12):
    x = torch.randn(64, 5)
    h = features(x)
    fit = (head(Spike.apply(h) + Bounded.apply(h)) - x.sin().sum(1, keepdim=True)).pow(2).mean()
    loss = fit + F.cross_entropy(domain(Reversed.apply(h)), torch.randint(0, 2, (64,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
