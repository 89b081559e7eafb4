import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
offset = nn.Parameter(torch.zeros(8), requires_grad=False)
projection = nn.Linear(8, 2)  # stays as it was drawn
optimizer = torch.optim.Adam([*encoder.parameters(), offset])
for _ in range(12):
    optimizer.zero_grad()
    projection(encoder(torch.randn(8, 3)) + offset).pow(2).mean().backward()
    optimizer.step()
