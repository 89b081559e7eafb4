import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(16, 4)

for _ in range(3):
    warm = net(x).square().mean()
    optimizer.zero_grad()
    warm.backward()
    optimizer.step()

for _ in range(6):  # `warm` is still there, and no other stream
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
