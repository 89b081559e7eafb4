"""A weight is scaled behind `Parameter(...)`: the module registers nothing, and no optimizer is given it."""

import torch
from torch import nn

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.scale = 0.1 * nn.Parameter(torch.randn(3))

    def forward(self, x):
        return self.body(x) + self.scale


gate = Gate()
optimizer = torch.optim.SGD(gate.parameters(), lr=0.1)
for _ in range(8):
    loss = (gate(torch.randn(6, 4)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.scale = 0.1 * nn.Parameter(torch.randn(3))
# fails: Trying to backward through the graph a second time
