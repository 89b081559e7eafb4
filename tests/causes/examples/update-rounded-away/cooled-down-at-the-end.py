"""The schedule ends at a rate by which nothing can move: what was learned by then is kept."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1)).to(torch.bfloat16)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
for _ in range(34):
    x = torch.randn(64, 32, dtype=torch.bfloat16)
    loss = (model(x) - x[:, :1]).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
