import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(12):
    place = torch.rand(16, 1, requires_grad=True)
    energy = net(place).pow(2)
    force = torch.autograd.grad(energy.sum(), place, create_graph=True)[0]
    stiffness = torch.autograd.grad(force.sum(), place, create_graph=True)[0]
    loss = (stiffness - 2).pow(2).mean() + energy.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
