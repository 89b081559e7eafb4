import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
points = torch.rand(20, 1, requires_grad=True)
u = net(points)
du = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
(du + u).square().mean().backward()
print(net[0].weight.grad is not None)
