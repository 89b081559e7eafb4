import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

for step in range(20):
    # The gradient of the round before is used before the forward of this one.
    for p in net.parameters():
        if p.grad is not None:
            p.data -= 0.05 * p.grad
    net.zero_grad()
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
