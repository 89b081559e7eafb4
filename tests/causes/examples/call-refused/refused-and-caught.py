"""The program asks whether a call is possible, and goes another way where it is not."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)


def example_loss(x):
    return (net(x) + torch.rand(2)).square().mean()


x = torch.randn(8, 4)
try:
    loss = torch.vmap(example_loss)(x).mean()
except RuntimeError:
    loss = torch.vmap(example_loss, randomness="different")(x).mean()
loss.backward()
