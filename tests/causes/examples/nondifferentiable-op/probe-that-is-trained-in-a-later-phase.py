"""A probe's decision weighs the loss of the first phase; the second phase trains it by a loss of its own."""

import torch
from torch import nn

torch.manual_seed(0)
body, probe = nn.Linear(5, 2), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*body.parameters(), *probe.parameters()])
x, y = torch.randn(40, 5), torch.randn(40, 2)
for step in range(16):
    keep = (probe(x) > 0).float()
    if step < 8:
        loss = (keep * (body(x) - y).square()).mean()
    else:
        loss = nn.functional.binary_cross_entropy_with_logits(probe(x), (y.sum(1, keepdim=True) > 0).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
