"""Hand-made steps of gradient descent, with an optimizer for the head."""

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.05)


def descend(body, rate):
    with torch.no_grad():
        for p in body.parameters():
            p.copy_(p - rate * p.grad)


for _ in range(12):
    x = torch.randn(16, 4)
    loss = (head(torch.tanh(body(x))) - x.sum(1, keepdim=True)).square().mean()
    body.zero_grad()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    descend(body, 0.05)
