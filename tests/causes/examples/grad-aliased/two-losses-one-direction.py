import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def update(x):
    net.zero_grad(set_to_none=False)
    net(x).pow(2).mean().backward()
    g = [p.grad for p in net.parameters()]
    net.zero_grad(set_to_none=False)
    net(x).abs().mean().backward()
    k = [p.grad for p in net.parameters()]
    dot = sum((a * b).sum() for a, b in zip(g, k))
    for p, a in zip(net.parameters(), g):
        p.grad = a * dot
    optimizer.step()


for x in torch.randn(5, 4, 3):
    update(x)

# told at: g = [p.grad for p in net.parameters()]
