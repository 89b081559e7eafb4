import torch
from torch import nn

torch.manual_seed(0)
conv, head = nn.Conv2d(1, 4, 3), nn.Linear(4, 2)
maps = conv(torch.randn(1, 1, 6, 6)).relu()
maps.retain_grad()
head(maps.mean((2, 3)))[0, 1].backward()
print(maps.grad.mean((2, 3), keepdim=True).shape)
