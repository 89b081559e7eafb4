"""The parameter is registered, and what the forward keeps of it for a look is the result of an operation."""

import torch
from torch import nn

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.raw = nn.Parameter(torch.randn(3))

    def forward(self, x):
        self.scale = 0.1 * self.raw
        return self.body(x) + self.scale


gate = Gate()
optimizer = torch.optim.SGD(gate.body.parameters(), lr=0.1)
for _ in range(8):
    loss = (gate(torch.randn(6, 4)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
