"""Terms with a rounding, each with a way past it: the part behind the point, a straight-through sum, a distance."""

import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(body.parameters(), lr=1e-2)
for _ in range(14):
    x = torch.randn(32, 4)
    out = body(x)
    phase = out[:, 0] - torch.floor(out[:, 0])
    counts = out[:, 1] + (torch.round(out[:, 1]) - out[:, 1]).detach()
    whole = out[:, 2] - torch.round(out[:, 2])
    signed = torch.sign(out[:, 2]) * out[:, 2].abs().add(1e-3).sqrt()
    loss = (phase - 0.5).square().mean() + (counts - x[:, 0]).square().mean()
    loss = loss + 0.1 * whole.square().mean() + 0.1 * (signed - x[:, 1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
