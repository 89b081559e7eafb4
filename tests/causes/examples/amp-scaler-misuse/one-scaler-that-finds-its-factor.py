"""The first steps are left out until the factor fits; three networks have a scaler each, made once."""

import torch
from torch import nn

torch.manual_seed(0)
nets = [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(3)]
optimizers = [torch.optim.SGD(net.parameters(), lr=1e-6) for net in nets]
scalers = [torch.amp.GradScaler("cpu") for _ in nets]
for _ in range(12):
    x = 30 * torch.randn(64, 8)
    for net, optimizer, scaler in zip(nets, optimizers, scalers):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (net(x) - x.sum(1, keepdim=True)).pow(2).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
