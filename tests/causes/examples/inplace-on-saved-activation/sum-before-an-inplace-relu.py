import torch
from torch import nn

torch.manual_seed(0)


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(4, 4, 1)) for _ in range(2))

    def forward(self, x):
        x = torch.relu(x)
        path = x
        for block in self.blocks:
            path = block(path)
            x += path
        return x


class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        return self.conv(self.relu(x)) + x


net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), Pool(), Unit(), nn.Conv2d(4, 2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(2):
    loss = net(torch.randn(2, 3, 8, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: x += path
# fails: modified by an inplace operation
