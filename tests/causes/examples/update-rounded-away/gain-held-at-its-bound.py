"""The gain is clamped behind each step, which would carry it beyond its bound."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).bfloat16()
gain = nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
optimizer = torch.optim.Adam([*net.parameters(), gain], lr=2e-2)
for _ in range(70):
    x = torch.randn(32, 8).bfloat16()
    loss = F.mse_loss(gain.detach() * net(x), 4 * x) - 0.5 * gain.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        gain.clamp_(max=1.0)
