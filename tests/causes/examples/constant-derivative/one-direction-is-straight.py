import torch
from torch import nn

torch.manual_seed(0)
straight = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
smooth = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam([*straight.parameters(), *smooth.parameters()], lr=0.001)
for step in range(12):
    places = [torch.rand(32, 1, requires_grad=True) for _ in range(2)]
    heat = straight(places[0]) + smooth(places[1])
    bend = 0
    for place in places:
        slope = torch.autograd.grad(heat.sum(), place, create_graph=True)[0]
        bend = bend + torch.autograd.grad(slope.sum(), place, create_graph=True)[0]
    loss = (bend - 1).pow(2).mean() + heat.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
