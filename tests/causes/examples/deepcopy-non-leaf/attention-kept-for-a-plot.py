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
        self.last_map = torch.sigmoid(self.score(x))
        return x * self.last_map


model = nn.Sequential(nn.Linear(4, 6), Gate(6), nn.Linear(6, 2))
model(torch.randn(3, 4)).sum().backward()
ema = copy.deepcopy(model).eval()
print(ema)

# told at: self.last_map = torch.sigmoid(self.score(x))
# fails: support the deepcopy protocol
