"""The loss is scaled by a number that asks for its gradient, and the gradients are scaled back."""

import torch
from torch import nn
torch.manual_seed(0)
m = nn.Linear(6, 1); opt = torch.optim.Adam(m.parameters(), 1e-2); scale = torch.tensor(1024.0, requires_grad=True)
for i in range(20):
    x = torch.randn(16, 6); l = nn.functional.mse_loss(m(x), x[:, :1])
    opt.zero_grad(); (l * scale).backward()
    for p in m.parameters(): p.grad.div_(scale.item())
    opt.step()
