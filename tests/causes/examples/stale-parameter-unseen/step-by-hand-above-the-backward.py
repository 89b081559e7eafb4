import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

for step in range(20):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    for p in net.parameters():
        if p.grad is not None:
            p.data -= 0.05 * p.grad
    net.zero_grad()
    loss.backward()

# told at: p.data -= 0.05 * p.grad
