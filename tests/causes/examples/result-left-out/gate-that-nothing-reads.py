import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 6)
        self.gate = nn.Linear(6, 6)

    def forward(self, x):
        gate = self.gate(x)
        if x.shape[0] > 1:
            gate = torch.ones(6)
        y = torch.relu(self.body(x))
        gate = gate.sigmoid()
        return x + y * gate


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.scale, self.head = Block(), nn.Linear(6, 1), nn.Linear(6, 2)

    def forward(self, x):
        h = self.block(x)
        scale = self.scale(h)
        return self.head(h)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(24):
    x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

# told at: scale = self.scale(h)
