import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, fused=True)
for x in torch.randn(4, 8, 3):
    y = net(x)
    optimizer.zero_grad()
    y[:, 0].pow(2).mean().backward(retain_graph=True)
    y[:, 1].abs().mean().backward()
    optimizer.step()
