import torch
from torch import nn

torch.manual_seed(0)


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        y = torch.tanh(x @ weight.T + bias)
        ctx.save_for_backward(x, y, weight)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y, weight = ctx.saved_tensors
        grad = grad * (1 - y * y)
        return grad @ weight, grad.T @ x, grad.sum(0)


layer, head = nn.Linear(3, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
for _ in range(20):
    x = torch.randn(32, 3)
    loss = (head(Squash.apply(x, layer.weight, layer.bias)) - x.prod(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
