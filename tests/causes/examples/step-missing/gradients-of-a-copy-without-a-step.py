"""The gradients of an adapted copy become those of the head: only a step would use them there."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
head = nn.Linear(4, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.05)
for _ in range(12):
    own = copy.deepcopy(head)
    x = torch.randn(16, 4)
    inner = (own(x) - x.sum(1, keepdim=True)).square().mean()
    grads = torch.autograd.grad(inner, list(own.parameters()))
    with torch.no_grad():
        for p, g in zip(own.parameters(), grads, strict=True):
            p -= 0.1 * g
    loss = (own(x) + head(x) - 2 * x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for p, q in zip(head.parameters(), own.parameters(), strict=True):
        p.grad = q.grad.clone()

# told at: loss.backward()
