import copy

import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
net, target = nn.Linear(3, 2), nn.Linear(3, 2)
optimizer = torch.optim.Adam([*net.parameters(), *target.parameters()])
for i, x in enumerate(torch.randn(12, 8, 3)):
    best = target(x + 1).max(dim=1).values
    goal = 0.5 + 0.9 * best
    optimizer.zero_grad()
    mse_loss(net(x)[:, 0], goal).backward()
    optimizer.step()
    if i % 4 == 3:
        target.load_state_dict(net.state_dict())

# told at: goal = 0.5 + 0.9 * best
