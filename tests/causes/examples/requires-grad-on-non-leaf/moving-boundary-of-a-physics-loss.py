import torch
from torch import nn


def derivative(u, x):
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
t = torch.rand(20, 1).requires_grad_()
for step in range(3):
    wall = 2 * torch.exp(-t)
    wall.requires_grad = True
    u = net(torch.cat([wall, t], dim=1))
    loss = derivative(u, wall).square().mean() + derivative(u, t).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: wall.requires_grad = True
# fails: you can only change requires_grad flags of leaf variables
