"""The optimizer has the schedule; the program keeps exact weights, and writes them into the model after each step."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 8)).bfloat16()
exact = [p.detach().float() for p in net.parameters()]
optimizer = torch.optim.SGD(net.parameters(), lr=2e-3)
for _ in range(16):
    x = torch.randn(32, 8).bfloat16()
    loss = F.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for weights, p in zip(exact, net.parameters()):
            weights.sub_(2e-3 * p.grad.float())
            p.copy_(weights)
