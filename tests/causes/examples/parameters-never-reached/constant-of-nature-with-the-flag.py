"""A number inside of what is squared weighs no term of the loss."""

import torch
from torch import nn
torch.manual_seed(0)
g = torch.tensor(9.81, requires_grad=True)
v = nn.Parameter(torch.tensor(5.0)); th = nn.Parameter(torch.tensor(0.6))
opt = torch.optim.Adam([v, th], 0.05)
for step in range(40):
    d = v ** 2 * torch.sin(2 * th) / g
    loss = (d - 10.0) ** 2
    opt.zero_grad(); loss.backward(); opt.step()
