import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(12):
    x = torch.randn(64, 16)
    loss = F.softmax(model(x), dim=-1).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = F.softmax(model(x), dim=-1).sum(-1).mean()
