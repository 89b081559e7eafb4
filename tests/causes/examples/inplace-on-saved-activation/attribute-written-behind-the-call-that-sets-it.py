import torch
from torch import nn

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        self.last = self.layer(x).sigmoid()
        return self.last * x


gate = Gate()
optimizer = torch.optim.SGD(gate.parameters(), lr=0.1)
for _ in range(3):
    out = gate(torch.ones(2, 3))
    gate.last.mul_(2)
    optimizer.zero_grad()
    out.sum().backward()
    optimizer.step()

# told at: gate.last.mul_(2)
# fails: has been modified by an inplace operation
