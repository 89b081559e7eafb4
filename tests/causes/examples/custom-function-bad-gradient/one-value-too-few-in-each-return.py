"""forward got another argument, a number, and neither of backward's two returns has a value for it."""
import torch
from torch import nn


class Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, frozen, splits):
        ctx.save_for_backward(x, weight)
        ctx.frozen = frozen
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        if ctx.frozen:
            return grad @ weight, None, None
        return grad @ weight, grad.t() @ x, None


torch.manual_seed(0)
body, weight = nn.Linear(3, 4), nn.Parameter(torch.randn(2, 4))
optimizer = torch.optim.SGD([*body.parameters(), weight], lr=0.1)
for step in range(3):
    loss = Normed.apply(body(torch.randn(5, 3)), weight, False, 2).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return grad @ weight, grad.t() @ x, None
# fails: returned an incorrect number of gradients (expected 4, got 3)
