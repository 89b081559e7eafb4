"""A batch is drawn anew until its loss is small enough."""

import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), 0.05)
for step in range(8):
    for attempt in range(3):
        x = torch.randn(16, 8) * (1 + 9 * (attempt < 2))
        opt.zero_grad()
        loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        if loss.item() < 15:
            break
    opt.step()
