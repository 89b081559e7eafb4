"""The optimizer decays the weights and not the biases; the printed objective counts both."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
weights = [p for p in net.parameters() if p.dim() > 1]
biases = [p for p in net.parameters() if p.dim() == 1]
optimizer = torch.optim.SGD([{"params": weights, "weight_decay": 0.01}, {"params": biases}], lr=0.05)
for _ in range(12):
    x = torch.randn(32, 6)
    loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
    objective = loss + 0.005 * sum(p.square().sum() for p in net.parameters())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f} {objective.item():.3f}")
