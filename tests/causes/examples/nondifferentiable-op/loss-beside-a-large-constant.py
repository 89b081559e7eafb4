import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(12):
    x = torch.randn(64, 8)
    loss = (model(x) - x[:, :1]).pow(2).mean() + 1e7
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
