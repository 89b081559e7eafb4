import copy

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
for _ in range(12):
    own = copy.deepcopy(head)
    x = torch.randn(16, 4)
    for _ in range(2):
        inner = (own(body(x)) - x.sum(1, keepdim=True)).square().mean()
        grads = torch.autograd.grad(inner, list(own.parameters()))
        with torch.no_grad():
            for p, g in zip(own.parameters(), grads, strict=True):
                p -= 0.1 * g
    loss = (own(body(x)) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for p, q in zip(head.parameters(), own.parameters(), strict=True):
        p.grad = q.grad.clone()
    optimizer.step()
