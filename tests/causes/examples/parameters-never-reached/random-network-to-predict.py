import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class RandomTarget(nn.Module):
    def __init__(self, d=16, k=8):
        super().__init__()
        self.fc = nn.Linear(d, 24)
        self.out = nn.Parameter(torch.randn(24, k) * 0.2)

    def forward(self, z):
        return self.fc(z).relu() @ self.out


embed = nn.Linear(10, 16)
inverse = nn.Linear(32, 4)
target = RandomTarget()
predictor = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))
opt = torch.optim.Adam([*embed.parameters(), *inverse.parameters(), *predictor.parameters()], lr=1e-3)
for _ in range(30):
    s, s2, a = torch.randn(32, 10), torch.randn(32, 10), torch.randint(0, 4, (32,))
    z, z2 = embed(s), embed(s2)
    inv = F.cross_entropy(inverse(torch.cat([z, z2], 1)), a)
    bonus = (predictor(z2) - target(z2)).pow(2).mean()
    loss = inv + bonus
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
