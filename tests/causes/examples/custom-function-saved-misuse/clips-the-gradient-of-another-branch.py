import torch
from torch import nn


class Damped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(0.1)


torch.manual_seed(0)
slow, fast, head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*slow.parameters(), *fast.parameters(), *head.parameters()], lr=0.05)
for _ in range(8):
    x = torch.randn(16, 6)
    hidden = fast(x) + Damped.apply(slow(x))
    loss = (head(torch.tanh(hidden)) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return grad.mul_(0.1)
