import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(12):
    x = torch.randn(64, 16)
    z = F.normalize(encoder(x), dim=-1)
    loss = z.pow(2).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: z = F.normalize(encoder(x), dim=-1)
