"""Easy triplets first: the margin is met by all of them for ten steps, and by few of the hard ones that follow."""

import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Linear(8, 5)
optimizer = torch.optim.SGD(embed.parameters(), lr=0.1)
criterion = nn.TripletMarginLoss(margin=0.2)
for step in range(14):
    x = torch.randn(16, 8)
    apart = 0.001 if step < 10 else 2.0
    loss = criterion(embed(x), embed(x + apart * torch.randn(16, 8)), embed(x.roll(1, 0)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
