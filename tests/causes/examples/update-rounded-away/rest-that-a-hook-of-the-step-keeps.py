"""A hook of the step keeps what was rounded off, and adds it to the next update."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).bfloat16()
optimizer = torch.optim.SGD(net.parameters(), lr=2e-4)
rests, before = {p: torch.zeros_like(p, dtype=torch.float32) for p in net.parameters()}, {}


def keep(optimizer, args, kwargs):
    before.update((p, p.detach().float()) for p in rests)


def add(optimizer, args, kwargs):
    for p in rests:
        exact = before[p] - optimizer.param_groups[0]["lr"] * p.grad.float() + rests[p]
        p.data.copy_(exact)
        rests[p] = exact - p.detach().float()


optimizer.register_step_pre_hook(keep)
optimizer.register_step_post_hook(add)
for _ in range(16):
    x = torch.randn(32, 8).bfloat16()
    loss = F.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
