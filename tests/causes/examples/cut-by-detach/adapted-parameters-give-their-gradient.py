import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    x, query = torch.randn(2, 8, 3)
    loss = net(x).pow(2).mean()
    inner = torch.autograd.grad(loss, net.parameters())
    # Of the first order: the adapted parameters are leaves, and their gradients are used for what they began from.
    fast = [nn.Parameter(p - 0.1 * g) for p, g in zip(net.parameters(), inner)]
    nn.functional.linear(query, *fast).pow(2).mean().backward()
    for p, f in zip(net.parameters(), fast):
        p.grad = f.grad
    optimizer.step()
