"""The density of a point is log(1) where the sample lies on it: that term has no gradient, and no share in the loss."""

import torch
from torch import nn

torch.manual_seed(0)


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.place, self.spread = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))

    def forward(self):
        drawn = self.place + self.spread.exp() * torch.randn(())
        return drawn, torch.tensor(0.0) - self.spread

    def at(self, x, drawn):
        return (x == drawn).type(x.dtype).log()


guide = Point()
optimizer = torch.optim.Adam(guide.parameters(), lr=0.05)
data = torch.randn(32) + 2
curve = []
for _ in range(14):
    x, density = guide()
    loss = (data - x).square().mean() + density + guide.at(x, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    curve.append(loss.detach())
