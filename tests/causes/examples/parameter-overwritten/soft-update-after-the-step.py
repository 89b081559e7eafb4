import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
target = copy.deepcopy(net)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    obs, next_obs = torch.randn(4, 3), torch.randn(4, 3)
    with torch.no_grad():
        bootstrap = 0.9 * target(next_obs)
    loss = (net(obs) - bootstrap).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
            slow.lerp_(fast, 0.05)
