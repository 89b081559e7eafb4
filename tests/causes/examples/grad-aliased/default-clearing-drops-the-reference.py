import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(5, 4, 3):
    net.zero_grad()
    net(x).pow(2).mean().backward()
    g = [p.grad for p in net.parameters()]
    net.zero_grad()
    net(x).abs().mean().backward()
    for p, a in zip(net.parameters(), g):
        p.grad = p.grad + a
    optimizer.step()
