"""The target is made from the mapped tensor, so it is mapped too."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 6)


def prefix_means(x):
    out = torch.zeros_like(x)
    for i in range(x.shape[0]):
        out[i] = x[: i + 1].mean()
    return out


loss = torch.vmap(prefix_means)(net(torch.randn(8, 6))).square().mean()
loss.backward()
