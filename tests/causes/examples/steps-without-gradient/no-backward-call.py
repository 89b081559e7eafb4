import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    total = 0.0
    for batch in torch.rand(4, 8, 4):
        optimizer.zero_grad()
        loss = (net(batch) - 1).square().mean()
        # loss.backward()
        optimizer.step()
        total += loss.item()

# told at: optimizer.step()
