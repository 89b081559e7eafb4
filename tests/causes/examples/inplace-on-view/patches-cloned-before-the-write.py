import torch
from torch import nn

torch.manual_seed(0)
mask_token, encoder = nn.Parameter(torch.zeros(4)), nn.Linear(4, 4)
with torch.no_grad():
    patches = torch.randn(2, 12).view(2, -1, 4)
    patches.clamp_(-1, 1)
patches = patches.clone()
patches[:, 0] = mask_token
encoder(patches).pow(2).mean().backward()
