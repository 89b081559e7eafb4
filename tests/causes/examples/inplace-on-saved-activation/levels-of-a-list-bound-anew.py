import torch
from torch import nn
from torch.nn import functional as F


class Pyramid(nn.Module):
    def __init__(self, widths, depth):
        super().__init__()
        self.inner = nn.ModuleList(nn.Sequential(nn.Conv2d(w, depth, 1), nn.Sigmoid()) for w in widths)
        self.outer = nn.ModuleList(nn.Conv2d(depth, depth, 3, padding=1) for _ in widths)

    def forward(self, maps):
        levels = [inner(m) for inner, m in zip(self.inner, maps, strict=True)]
        for i in range(len(levels) - 1, 0, -1):
            levels[i - 1] = levels[i - 1] + F.interpolate(levels[i], scale_factor=2.0)
        return [outer(level) for outer, level in zip(self.outer, levels, strict=True)]


pyramid = Pyramid([3, 5], 4)
optimizer = torch.optim.SGD(pyramid.parameters(), lr=0.1)
for _ in range(3):
    fine, coarse = pyramid([torch.randn(2, 3, 8, 8), torch.randn(2, 5, 4, 4)])
    loss = fine.square().mean() + coarse.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

