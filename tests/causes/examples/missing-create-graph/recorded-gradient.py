import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
mixed = torch.randn(4, 3).requires_grad_()
(slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
(slope.norm(dim=1) - 1).square().mean().backward()
print(critic[0].weight.grad.abs().sum() > 0)
