"""The weights of the terms are moved in every eighth round, by a grad call."""

import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(6, 2); w = torch.ones(2, requires_grad=True)
opt = torch.optim.Adam(net.parameters(), 1e-2)
def ascend(ws, gs, lr=0.1): return [(a.detach() + lr * g).requires_grad_() for a, g in zip(ws, gs)]
for i in range(24):
    x = torch.randn(16, 6); o = net(x)
    l = w[0] * (o[:, 0] - x[:, 0]).pow(2).mean() + w[1] * (o[:, 1] - x[:, 1]).pow(2).mean()
    opt.zero_grad(); l.backward(retain_graph=True)
    if i % 8 == 7:
        g = torch.autograd.grad(l, [w]); (w,) = ascend([w], g)
    opt.step()
