import math
import torch
from torch import nn

torch.manual_seed(0)


class RandomFeatures(nn.Module):
    """phi(x) = cos(xW + b), W and b drawn once."""

    def __init__(self, dim, features=32):
        super().__init__()
        self.w = nn.Parameter(torch.randn(dim, features))
        self.b = nn.Parameter(2 * math.pi * torch.rand(features))

    def forward(self, x):
        return torch.cos(x @ self.w + self.b).mean(0)


generator = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 8))
phi = RandomFeatures(8)
data = torch.randn(512, 8) * 2 + 1
with torch.no_grad():
    target = phi(data)
optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
for step in range(40):
    fake = generator(torch.randn(128, 4))
    loss = (phi(fake) - target).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
