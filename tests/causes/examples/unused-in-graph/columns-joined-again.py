import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
f = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(f.parameters(), 1e-3)


def residual(xt):
    xt.requires_grad_(True)
    x, t = xt[:, :1], xt[:, 1:]
    u = f(torch.cat([x, t], 1))
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    return u_t + u * u_x


for i in range(3):
    loss = residual(torch.rand(16, 2)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
