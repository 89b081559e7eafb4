import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
real, fake = torch.randn(4, 3), torch.randn(4, 3)
optimizer.zero_grad()
net(real).mean().backward()
(-net(fake)).mean().backward()
optimizer.step()
