import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(12):
    x = torch.randn(16, 4)
    loss = (model(x) - 5 * x[:, :1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(average.parameters(), 0.1)
    optimizer.step()
    with torch.no_grad():
        for kept, p in zip(average.parameters(), model.parameters()):
            kept.lerp_(p, 0.1)

# told at: nn.utils.clip_grad_norm_(average.parameters(), 0.1)
