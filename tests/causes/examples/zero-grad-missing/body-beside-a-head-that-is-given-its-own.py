import copy

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.02)
for _ in range(12):
    fast = copy.deepcopy(head)
    x = torch.randn(16, 4)
    fast.zero_grad()
    loss = (fast(body(x).relu()) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    for p, q in zip(head.parameters(), fast.parameters(), strict=True):
        p.grad = q.grad.clone()
    optimizer.step()

# told at: loss.backward()
