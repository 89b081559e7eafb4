import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(12):
    place = torch.rand(16, 1, requires_grad=True)
    time = torch.rand(16, 1, requires_grad=True)
    heat = net(torch.cat([place, time], 1))
    slope, change = torch.autograd.grad(heat.sum(), (place, time), create_graph=True)
    bend = torch.autograd.grad(slope.sum(), place, create_graph=True)[0]
    loss = (change - bend).pow(2).mean() + (net(torch.zeros(1, 2)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())

# told at: bend = torch.autograd.grad(slope.sum(), place, create_graph=True)[0]
