import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        x.data += self.second(torch.relu(self.first(x)))
        return x


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), Block(16), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(64, 6)
y = x[:, :1] * x[:, 1:2]
for _ in range(20):
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: x.data += self.second(torch.relu(self.first(x)))
