import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
outer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(8):
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    learner = copy.deepcopy(model)
    inner = torch.optim.SGD(learner.parameters(), lr=0.1)
    inner.zero_grad()
    nn.functional.mse_loss(learner(x[:8]), y[:8]).backward()
    inner.step()
    outer.zero_grad()
    nn.functional.mse_loss(learner(x[8:]), y[8:]).backward()
    outer.step()

# told at: outer.step()
