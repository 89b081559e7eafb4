"""A sequence of one word gives its word all the weight; the next ones are longer."""

import torch
from torch import nn

torch.manual_seed(0)
score, head = nn.Linear(8, 1), nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 1))
optimizer = torch.optim.SGD([*score.parameters(), *head.parameters()], lr=0.1)
for words in (1, 1, 1, 5, 1, 3, 1, 1):
    x = torch.randn(4, words, 8)
    weights = score(x).exp()
    pooled = (weights / weights.sum(1, keepdim=True) * x).sum(1)
    loss = (head(pooled) - x.mean((1, 2))[:, None]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
