import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
for width in (2, 5):
    if width == 5:
        model[2] = nn.Linear(8, width)
        optimizer = torch.optim.Adam(model.parameters())
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.randn(8, 3)).pow(2).mean().backward()
        optimizer.step()
