"""The penalty is in the printed objective, and its gradient is added by hand, when the other one is clipped."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(32, 6)
    loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
    total = loss + 1e-3 * sum(p.abs().sum() for p in net.parameters())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    with torch.no_grad():
        for p in net.parameters():
            p.grad += 1e-3 * p.sign()
    optimizer.step()
    print(f"{loss.item():.3f} {total.item():.3f}")
