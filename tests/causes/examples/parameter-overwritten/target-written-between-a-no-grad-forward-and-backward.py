import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
target = copy.deepcopy(net)
with torch.no_grad():
    bootstrap = target(torch.randn(4, 3))
loss = (net(torch.randn(4, 3)) - bootstrap).pow(2).mean()
target.load_state_dict(net.state_dict())
loss.backward()
