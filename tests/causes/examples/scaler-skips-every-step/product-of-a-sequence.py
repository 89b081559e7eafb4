import torch
from torch import nn

torch.manual_seed(0)
growth = nn.Linear(3, 24)
optimizer = torch.optim.Adam(growth.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(40):
    optimizer.zero_grad()
    factors = 900 + growth(torch.randn(8, 3))
    size = factors.cumprod(dim=1)[:, -1]
    loss = (size - 1).abs().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(growth.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()

# told at: size = factors.cumprod(dim=1)[:, -1]
