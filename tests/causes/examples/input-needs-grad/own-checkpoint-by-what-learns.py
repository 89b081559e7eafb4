import torch
from torch import nn


class Again(torch.autograd.Function):
    """Runs a layer without a graph, and once more when its gradients are asked for."""

    @staticmethod
    def forward(ctx, layer, x, *weights):
        ctx.layer, ctx.x, ctx.weights = layer, x, list(weights)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.x.detach().requires_grad_(True)
        with torch.enable_grad():
            result = ctx.layer(x)
        wanted = [x] + [w for w in ctx.weights if w.requires_grad]
        grads = iter(torch.autograd.grad(result, wanted, grad, allow_unused=True))
        return None, next(grads), *(next(grads) if w.requires_grad else None for w in ctx.weights)


torch.manual_seed(0)
entry = nn.Linear(4, 8)
middle = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
head = nn.Linear(8, 1)
for p in middle[0].parameters():
    p.requires_grad = False
trained = [p for part in (entry, middle, head) for p in part.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(trained, lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    held = Again.apply(middle, entry(torch.randn(6, 4)), *middle.parameters())
    head(held).square().mean().backward()
    optimizer.step()

