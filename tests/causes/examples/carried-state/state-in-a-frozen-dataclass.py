import dataclasses

import torch
from torch import nn

torch.manual_seed(0)


@dataclasses.dataclass(frozen=True)
class Memory:
    hidden: torch.Tensor
    cell: torch.Tensor
    seen: int


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 8)
        self.head = nn.Linear(8, 1)
        self.memory = Memory(torch.zeros(3, 8), torch.zeros(3, 8), 0)

    def forward(self, x):
        h, c = self.cell(x, (self.memory.hidden, self.memory.cell))
        self.memory = Memory(h, c, self.memory.seen + 1)
        return self.head(h)


reader = Reader()
optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
for step in range(3):
    loss = reader(torch.randn(3, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.memory = Memory(h, c, self.memory.seen + 1)
# fails: backward through the graph a second time
