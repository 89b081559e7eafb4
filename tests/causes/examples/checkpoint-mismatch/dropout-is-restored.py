import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
block = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 4))
out = checkpoint(block, torch.randn(3, 4), use_reentrant=False)
out.square().mean().backward()
print(block[0].weight.grad.shape)
