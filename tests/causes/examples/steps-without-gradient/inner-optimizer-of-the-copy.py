import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    adapted = copy.deepcopy(model)
    inner = torch.optim.SGD(adapted.parameters(), lr=0.1)
    way = torch.randn(4)
    for _ in range(3):
        x = torch.randn(16, 4)
        inner.zero_grad()
        (model(x).squeeze(1) - x @ way).square().mean().backward()
        inner.step()
    x = torch.randn(16, 4)
    loss = (adapted(x).squeeze(1) - x @ way).square().mean()
    given = torch.autograd.grad(loss, list(adapted.parameters()))
    for p, g in zip(model.parameters(), given):
        p.grad = g
    optimizer.step()

# told at: inner.step()
