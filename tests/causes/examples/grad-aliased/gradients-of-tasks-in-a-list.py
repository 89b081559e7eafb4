import torch
from torch import nn


def gradient(net, x):
    for p in net.parameters():
        if p.grad is not None:
            p.grad.zero_()
    net(x).pow(2).mean().backward()
    return [p.grad.data for p in net.parameters()]


def train(net, tasks):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        collected = []
        for x in tasks:
            found = gradient(net, x)
            collected.append(found)
        for i, p in enumerate(net.parameters()):
            p.grad = torch.stack([c[i] for c in collected]).median(dim=0).values
        optimizer.step()


torch.manual_seed(0)
train(nn.Linear(3, 1), torch.randn(3, 4, 3))

# told at: return [p.grad.data for p in net.parameters()]
