import torch
from torch import nn


class Wave(nn.Module):
    def __init__(self, size, rate=None):
        super().__init__()
        if rate is None:
            self.rate = nn.Parameter(torch.rand(size, 1) + 0.5).squeeze(1)
        else:
            self.rate = nn.Parameter(torch.full((size,), rate))

    def forward(self, x):
        return x + torch.sin(self.rate * x) ** 2 / self.rate


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 8), Wave(8), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(8):
    x = torch.randn(16, 1)
    loss = (model(x) - torch.cos(2 * x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.rate = nn.Parameter(torch.rand(size, 1) + 0.5).squeeze(1)
