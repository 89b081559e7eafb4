"""An energy that a helper computes from a copy of the positions: no force comes back."""

import torch
from torch import nn

torch.manual_seed(0)
potential = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(potential.parameters(), lr=0.05)


def centred(positions):
    positions = positions.detach()
    return positions - positions.mean(0)


for _ in range(3):
    positions = torch.randn(6, 3, requires_grad=True)
    energy = potential(centred(positions)).sum()
    force = -torch.autograd.grad(energy, positions, create_graph=True)[0]
    loss = energy.square() + (force - torch.ones(6, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: positions = positions.detach()
# fails: appears to not have been used in the graph
