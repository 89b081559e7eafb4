import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=0.01)
for step in range(3):
    places, measured = torch.randn(10, 3).requires_grad_(), torch.randn(10, 3)
    force = -torch.autograd.grad(energy(places).sum(), places)[0]
    loss = (force - measured).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: force = -torch.autograd.grad(energy(places).sum(), places)[0]
# fails: element 0 of tensors does not require grad and does not have a grad_fn
