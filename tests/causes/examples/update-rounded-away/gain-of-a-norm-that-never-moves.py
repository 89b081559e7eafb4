"""The matrices learn in bfloat16. The gain of the norm is 1, and no step is large enough to move it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 24), nn.RMSNorm(24), nn.Linear(24, 1)).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.0)
for _ in range(80):
    x = torch.randn(16, 8, dtype=torch.bfloat16)
    loss = (model(x).float() - x.float().amax(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# told at: model = nn.Sequential(nn.Linear(8, 24), nn.RMSNorm(24), nn.Linear(24, 1)).to(torch.bfloat16)
