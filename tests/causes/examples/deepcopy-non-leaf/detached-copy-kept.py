import copy

import torch
from torch import nn

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.last_map = None

    def forward(self, x):
        gate = torch.sigmoid(self.score(x))
        self.last_map = gate.detach()
        return x * gate


model = nn.Sequential(nn.Linear(4, 6), Gate(6))
model(torch.randn(3, 4)).sum().backward()
print(copy.deepcopy(model)[1].last_map.shape)
