import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.write, self.head = nn.Linear(7, 4), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, xs):
        memory = torch.zeros(xs.shape[1], 4)
        out = []
        for x in xs:
            h = torch.tanh(self.cell(torch.cat([x, memory], 1)))
            out.append(self.head(h))
            memory = self.write(h)
        return torch.stack(out)


torch.manual_seed(0)
net = Reader()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    # sequences of one element: the memory is written and there is no pass that could read it
    xs = torch.randn(1, 8, 3)
    loss = (net(xs).squeeze(2) - xs.sum(2)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
