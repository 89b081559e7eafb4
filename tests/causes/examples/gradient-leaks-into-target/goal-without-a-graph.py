import copy

import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
net = nn.Linear(3, 2)
target = copy.deepcopy(net)
optimizer = torch.optim.Adam(net.parameters())
for i, x in enumerate(torch.randn(12, 8, 3)):
    with torch.no_grad():
        goal = 0.5 + 0.9 * target(x + 1).max(dim=1).values
    optimizer.zero_grad()
    mse_loss(net(x)[:, 0], goal).backward()
    optimizer.step()
    if i % 4 == 3:
        target.load_state_dict(net.state_dict())
