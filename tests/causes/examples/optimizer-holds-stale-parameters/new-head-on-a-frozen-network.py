import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
for parameter in model.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.Adam(model.parameters())
model[2] = nn.Linear(8, 3)
for _ in range(12):
    optimizer.zero_grad()
    cross_entropy(model(torch.randn(16, 4)), torch.randint(3, (16,))).backward()
    optimizer.step()

# told at: model[2] = nn.Linear(8, 3)
