"""A short run of a long warm-up: the rate doubles in every step, and has not arrived."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1)).to(torch.bfloat16)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-9)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 2.0)
for _ in range(12):
    x = torch.randn(64, 32, dtype=torch.bfloat16)
    loss = (model(x) - x[:, :1]).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
