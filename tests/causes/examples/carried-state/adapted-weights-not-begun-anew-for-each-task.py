"""The weights adapted to one task are those with which the next one begins, and their graph was freed."""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import mse_loss

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
meta = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in range(2):
    meta.zero_grad()
    adapted = dict(net.named_parameters())
    for slope in torch.linspace(1, 2, 3):
        x = torch.randn(6, 1)
        grads = torch.autograd.grad(
            mse_loss(functional_call(net, adapted, (x,)), slope * x), list(adapted.values()), create_graph=True
        )
        adapted = {name: w - 0.1 * g for (name, w), g in zip(adapted.items(), grads, strict=True)}
        mse_loss(functional_call(net, adapted, (x,)), slope * x).backward()
    meta.step()

# told at: adapted = {name: w - 0.1 * g for (name, w), g in zip(adapted.items(), grads, strict=True)}
# fails: backward through the graph a second time
