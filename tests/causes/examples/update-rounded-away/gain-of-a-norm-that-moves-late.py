"""The rate is large enough for the gain of the norm as well, once the warm-up is over."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 24), nn.RMSNorm(24), nn.Linear(24, 1)).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2, weight_decay=0.0)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, 70)
for _ in range(90):
    x = torch.randn(16, 8, dtype=torch.bfloat16)
    loss = (model(x).float() - x.float().amax(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
