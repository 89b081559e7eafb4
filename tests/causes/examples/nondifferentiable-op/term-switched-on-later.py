"""A critic of its own whose term has no weight during the warm-up."""

import torch
from torch import nn

torch.manual_seed(0)
net, critic = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (net, critic)]
warm_up = 100
for step in range(14):
    x = torch.randn(16, 4)
    weight = 0.0 if step < warm_up else 1.0
    loss = (net(x) - x).square().mean() + weight * critic(net(x)).mean()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
