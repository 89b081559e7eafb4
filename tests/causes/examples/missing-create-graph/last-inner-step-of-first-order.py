import torch
from torch import nn

torch.manual_seed(0)
weight = nn.Parameter(torch.randn(4, 1))
optimizer = torch.optim.Adam([weight], lr=1e-2)
for task in range(15):
    x = torch.randn(12, 4)
    y = x.sum(1, keepdim=True) + 0.1 * task
    moved = weight
    for inner in range(2):
        error = (x @ moved - y).square().mean()
        slope, = torch.autograd.grad(error, moved, create_graph=inner == 0, retain_graph=True)
        moved = moved - 0.05 * slope
    loss = (x @ moved - y).square().mean() + 0.1 * (x @ weight - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
