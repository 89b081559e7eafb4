import torch
from torch import nn

torch.manual_seed(0)


class Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shift, x):
        with torch.no_grad():
            y = x + shift
        ctx.inputs, ctx.outputs = (x,), (y.detach(),)
        return y

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.inputs
        with torch.no_grad():
            for given, again in zip(ctx.inputs, [ctx.outputs[0] - 1.0]):
                given.set_(again)
        return (grad * torch.ones_like(x)).sum(), grad


shift = nn.Parameter(torch.ones(()))
layer, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([shift, *layer.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    hidden = torch.tanh(layer(torch.randn(3, 4)))
    loss = head(Reversible.apply(shift, hidden)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: given.set_(again)
# fails: modified by an inplace operation
