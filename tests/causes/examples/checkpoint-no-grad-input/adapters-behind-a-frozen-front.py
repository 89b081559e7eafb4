import warnings
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Adapted(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.zeros(6, 2))

    def forward(self, x):
        return torch.tanh(self.layer(x) + x @ self.down.T @ self.up.T)


class Sensor(nn.Module):
    def __init__(self, saving):
        super().__init__()
        self.front = nn.Linear(3, 6).requires_grad_(False)
        self.blocks = nn.ModuleList(Adapted(nn.Linear(6, 6)) for _ in range(2))
        self.head = nn.Linear(6, 1)
        self.runs = partial(checkpoint, **saving)

    def forward(self, x):
        x = self.front(x)
        for block in self.blocks:
            x = self.runs(block, x)
        return self.head(x)


sensor = Sensor({"use_reentrant": True})
optimizer = torch.optim.Adam([p for p in sensor.parameters() if p.requires_grad], lr=0.01)
for _ in range(8):
    x = torch.randn(16, 3)
    loss = (sensor(x) - x.prod(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: x = self.runs(block, x)
