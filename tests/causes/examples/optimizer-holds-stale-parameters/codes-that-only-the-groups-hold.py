import torch
from torch import nn

torch.manual_seed(0)
renderer = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 8))  # stays as it was drawn
starts = (torch.zeros(5, 4) for _ in range(3))
optimizer = torch.optim.SGD([{"params": [nn.Parameter(start)]} for start in starts], lr=0.1)
for group, shape in zip(optimizer.param_groups, torch.randn(3, 5, 8), strict=True):
    (code,) = group["params"]
    for _ in range(12):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(renderer(code), shape)
        loss.backward()
        optimizer.step()
    print(loss.item())
