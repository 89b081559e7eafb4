"""The logarithm of the share of hits is to pull the scores up, and a comparison has no gradient."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
curve = []
for _ in range(14):
    scores = net(torch.randn(32, 4)).squeeze(1)
    hits = (scores < 0.1).float().mean()
    loss = scores.square().mean() + torch.log(hits)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    curve.append(loss.detach())

# told at: hits = (scores < 0.1).float().mean()
