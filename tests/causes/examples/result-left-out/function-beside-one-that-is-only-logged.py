import torch
from torch import nn

torch.manual_seed(0)


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class Spread(Squash):
    @staticmethod
    def forward(ctx, x):
        return Squash.forward(ctx, x.std(0))


model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    x = torch.randn(16, 4)
    out = model(x)
    spread = Spread.apply(out)
    loss = (Squash.apply(out).sum(-1) - x[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(spread.mean().item(), 3))
