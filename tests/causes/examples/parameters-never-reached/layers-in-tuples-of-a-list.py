import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.entry = nn.Linear(5, widths[0])
        self.stages = [(nn.LayerNorm(a), nn.Linear(a, b)) for a, b in zip(widths, widths[1:])]

    def forward(self, x):
        x = self.entry(x)
        for norm, linear in self.stages:
            x = linear(norm(x)).relu()
        return x.mean(1)


torch.manual_seed(0)
tower = Tower([8, 12, 6])
optimizer = torch.optim.Adam(tower.parameters(), lr=0.01)
for _ in range(10):
    x = torch.randn(16, 5)
    loss = (tower(x) - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.stages = [(nn.LayerNorm(a), nn.Linear(a, b)) for a, b in zip(widths, widths[1:])]
