import torch
from torch import nn


class Bumps(nn.Module):
    def __init__(self):
        super().__init__()
        self.reach = nn.Parameter(torch.tensor(2.0))
        self.weigh = nn.Linear(9, 1)

    def forward(self, x):
        grid = torch.linspace(-float(self.reach), float(self.reach), 9)
        return self.weigh(torch.exp(-((x - grid) ** 2)))


torch.manual_seed(0)
model = Bumps()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    x = torch.randn(32, 1)
    loss = (model(x) - x.sin()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: grid = torch.linspace(-float(self.reach), float(self.reach), 9)
