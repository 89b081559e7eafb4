import torch
from torch import nn


@torch.no_grad()
def cut(signal, size):
    patches = signal.view(len(signal), -1, size)
    hidden = torch.rand(patches.shape[:2]) < 0.5
    return patches, hidden


torch.manual_seed(0)
mask_token = nn.Parameter(torch.zeros(4))
encoder = nn.Linear(4, 4)
patches, hidden = cut(torch.randn(2, 12), size=4)
patches[hidden] = mask_token
encoder(patches).pow(2).mean().backward()

# told at: patches[hidden] = mask_token
# fails: A view was created in no_grad mode and is being modified inplace
