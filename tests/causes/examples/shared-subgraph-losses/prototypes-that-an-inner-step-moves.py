import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
optimizer = torch.optim.Adam(body.parameters(), lr=1e-2)
y = torch.arange(3).repeat(4)
for _ in range(4):
    centres = torch.randn(3, 4)
    x, later = centres[y] + 0.3 * torch.randn(12, 4), centres[y] + 0.3 * torch.randn(12, 4)
    shown = body(x)
    means = [shown[y == c].mean(0) for c in range(3)]
    weights = dict(body.named_parameters())
    for _ in range(2):
        fit = nn.functional.cross_entropy(functional_call(body, weights, (x,)) @ torch.stack(means).T, y)
        moved = [*weights.values(), *means]
        slopes = torch.autograd.grad(fit, moved)
        moved = [m - 0.1 * s for m, s in zip(moved, slopes)]
        weights, means = dict(zip(weights, moved)), moved[len(weights) :]
    loss = nn.functional.cross_entropy(functional_call(body, weights, (later,)) @ torch.stack(means).T, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# The inner step is of first order as it is written: its graph is kept for the loss behind it.
# told at: slopes = torch.autograd.grad(fit, moved)
# fails: Trying to backward through the graph a second time
