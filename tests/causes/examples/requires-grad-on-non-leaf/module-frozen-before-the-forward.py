import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(6, 4), nn.Linear(4, 2)
backbone.requires_grad_(False)
features = backbone(torch.randn(3, 6)).relu()
features.requires_grad = False
head(features).square().mean().backward()
print(backbone.weight.grad is None)
