import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.Tanh())

    def forward(self, x):
        out = self.inner(x)
        out += x
        return out


torch.manual_seed(0)
net = nn.Sequential(Block(4), Block(4), nn.Linear(4, 1))
loss = net(torch.randn(3, 4)).pow(2).mean()
loss.backward()

# told at: out += x
# fails: modified by an inplace operation
