import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(body.parameters(), lr=1e-2)
for _ in range(14):
    x = torch.randn(32, 4)
    out = body(x)
    counts = torch.round(out[:, 0] * 4)
    loss = (counts - x[:, 0]).square().mean() + (out[:, 1:] - x[:, 1:3]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: counts = torch.round(out[:, 0] * 4)
