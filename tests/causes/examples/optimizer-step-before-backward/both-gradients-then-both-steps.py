import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
g = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
d = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
fake = g(torch.randn(5, 2))
g_loss = softplus(-d(fake)).mean()
d_loss = softplus(d(fake.detach())).mean()
opt_g.zero_grad()
g_loss.backward()
opt_d.zero_grad()
d_loss.backward()
opt_g.step()
opt_d.step()
