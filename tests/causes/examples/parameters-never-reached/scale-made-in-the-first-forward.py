import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = nn.Parameter(1 / self.layer.weight.detach().abs().mean())
        return self.layer(x) * self.scale


torch.manual_seed(0)
model = nn.Sequential(Scaled(), nn.ReLU(), Scaled())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(8, 6)
    loss = (model(x) - x.flip(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.scale = nn.Parameter(1 / self.layer.weight.detach().abs().mean())
