import torch
from torch import nn

torch.manual_seed(0)


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, power):
        ctx.save_for_backward(x, weight)
        ctx.power = power
        return weight * x**power

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight * ctx.power * x ** (ctx.power - 1)


net, weight = nn.Linear(4, 4), nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([*net.parameters(), weight], lr=0.1)
for _ in range(3):
    loss = Power.apply(net(torch.randn(8, 4)), weight, 2).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return grad * weight * ctx.power * x ** (ctx.power - 1)
# fails: returned an incorrect number of gradients
