import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(16):
    x = torch.randn(8, 4)
    net(x).abs().mean().backward()
    if step % 2 == 0:
        optimizer.zero_grad()
    nn.functional.mse_loss(net(x), x[:, :2]).backward()
    optimizer.step()
    optimizer.zero_grad()
