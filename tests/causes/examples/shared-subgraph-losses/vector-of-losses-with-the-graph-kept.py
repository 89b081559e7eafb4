import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(trunk.parameters(), lr=0.05)
for _ in range(4):
    features, targets = torch.randn(10, 6), torch.randn(10, 3)
    one, two, three = (trunk(features) - targets).square().mean(dim=0)
    optimizer.zero_grad()
    one.backward(retain_graph=True)
    two.backward(retain_graph=True)
    three.backward()
    optimizer.step()
