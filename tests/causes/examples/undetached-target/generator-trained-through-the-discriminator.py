import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
g = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
d = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(2):
    fake = g(torch.randn(5, 2))
    opt_d.zero_grad()
    (F.softplus(-d(torch.randn(5, 3))).mean() + F.softplus(d(fake.detach())).mean()).backward()
    opt_d.step()
    opt_g.zero_grad()
    F.softplus(-d(fake)).mean().backward()
    opt_g.step()
