import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
checkpoint(block, torch.randn(3, 4), use_reentrant=False).square().mean().backward()
print(block[0].weight.grad.shape)
