"""Each pass begins with a new factor, and is long enough to find it: steps are lost, training goes on."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
for _ in range(4):
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(30):
        x = 30 * torch.randn(64, 8)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (net(x) - x.sum(1, keepdim=True)).pow(2).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
