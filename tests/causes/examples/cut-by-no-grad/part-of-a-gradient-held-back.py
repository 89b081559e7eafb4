import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for _ in range(8):
    x, weight = torch.randn(8, 4), torch.rand(8, 1)
    cost = net(x).square()
    with torch.no_grad():
        rest = 0.9 * cost
    loss = ((0.1 * cost + rest) * weight).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
