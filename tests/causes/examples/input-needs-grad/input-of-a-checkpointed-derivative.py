import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
potential = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(potential.parameters())


def slope(at, scale):
    height = scale * potential(at).sum()
    return torch.autograd.grad(height, at, create_graph=True)[0]


scale = torch.ones((), requires_grad=True)
points, wanted = torch.randn(6, 2), torch.randn(6, 2)
for _ in range(3):
    optimizer.zero_grad()
    loss = (checkpoint(slope, points, scale, use_reentrant=False) - wanted).pow(2).mean()
    loss.backward()
    optimizer.step()

# told at: def slope(at, scale):
# fails: does not require grad
