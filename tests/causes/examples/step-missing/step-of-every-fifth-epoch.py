import torch
from torch import nn

torch.manual_seed(0)
every, evaluates = 5, True
meter = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(meter.parameters(), lr=1e-2)
for epoch in range(4):
    for i, x in enumerate(torch.randn(6, 8, 4)):
        loss = (meter(x) - x.sum(1, keepdim=True)).pow(2).mean()
        (loss / 30).backward()
        if not evaluates and i % 2 == 0:
            optimizer.step()
    if (epoch + 1) % every == 0:
        optimizer.step()
        optimizer.zero_grad()
