import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x):
        value, gate = self.linear(x).chunk(2, dim=-1)
        gate.sigmoid_()
        return value * gate


torch.manual_seed(0)
Cell(3)(torch.randn(2, 3)).sum().backward()

# told at: gate.sigmoid_()
# fails: function that returns multiple views
