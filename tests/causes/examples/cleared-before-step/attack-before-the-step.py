"""What the inner loop clears and differentiates moves the inputs; the step has a call of its own."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(256, 6)
y = x @ torch.randn(6, 1)
for epoch in range(6):
    delta = torch.zeros_like(x, requires_grad=True)
    for attack in range(3):
        opt.zero_grad()
        nn.functional.mse_loss(net(x + delta), y).backward()
        with torch.no_grad():
            delta += 0.01 * delta.grad.sign()
        delta.grad = None
    opt.step()
