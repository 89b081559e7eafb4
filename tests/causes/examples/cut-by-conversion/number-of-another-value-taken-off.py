"""What is taken off the loss is the number of another value than its own: that term of it has no gradient."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(14):
    out = net(torch.randn(16, 4))
    spread = out.var(0).mean()
    loss = out.square().mean() - spread.item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = out.square().mean() - spread.item()
