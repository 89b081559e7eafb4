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
net, head = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05)
for _ in range(8):
    x = torch.randn(16, 6)
    loss = (head(torch.tanh(Damped.apply(net(x)))) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
