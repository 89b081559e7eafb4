"""A multiplier is raised now and then, by what its constraint is worth and not by its gradient."""

import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(6, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
lam = torch.tensor(0.5, requires_grad=True)
def violation(m): return m.weight.norm() - 1.0
def dual_ascent(m, mult, rho=0.1):
    with torch.no_grad(): mult.add_(rho * violation(m)).clamp_(min=0)
for i in range(40):
    x = torch.randn(16, 6)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean() + lam * violation(net)
    opt.zero_grad(); loss.backward(); opt.step()
    if i % 10 == 9: dual_ascent(net, lam)
