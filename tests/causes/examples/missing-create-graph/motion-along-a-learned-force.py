import torch
from torch import nn

torch.manual_seed(2)
energy = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)
for _ in range(4):
    place = torch.randn(20, 2).requires_grad_()
    height = energy(place)
    force = -torch.autograd.grad(height.sum(), place)[0]
    later = place + 0.1 * force
    loss = (later - 0.9 * place.detach()).pow(2).mean() + 0.01 * height.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# What is moved is data: the loss learns through the force alone.
# told at: force = -torch.autograd.grad(height.sum(), place)[0]
# fails: Trying to backward through the graph a second time
