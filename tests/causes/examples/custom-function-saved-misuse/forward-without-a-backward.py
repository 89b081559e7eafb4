import torch
from torch import nn

torch.manual_seed(0)


class Squash(torch.autograd.Function):
    """A soft sign."""

    @staticmethod
    def forward(ctx, x, width):
        y = x / (width + x.abs())
        ctx.save_for_backward(x, y)
        ctx.width = width
        return y


net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = Squash.apply(net(torch.randn(8, 4)), 2.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: def forward(ctx, x, width):
# fails: You must implement either the backward or vjp method
