"""The positive is the anchor itself, and the negatives are far away: the margin is met before anything is learnt."""

import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Linear(8, 5)
optimizer = torch.optim.SGD(embed.parameters(), lr=0.1)
criterion = nn.TripletMarginLoss(margin=0.2)
for _ in range(12):
    anchor = embed(torch.randn(16, 8))
    negative = 100 * anchor.roll(1, 0)
    loss = criterion(anchor, anchor, negative)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = criterion(anchor, anchor, negative)
