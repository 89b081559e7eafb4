"""Momentum for a half-precision filter of bird calls: the steps are made on copies of 32 bits, by a class."""

import torch
from torch import nn

torch.manual_seed(0)
calls = torch.randn(40, 10)
loud = (calls.abs().sum(1, keepdim=True) > 8).float()


class Copies:
    def __init__(self, net, lr):
        self.pairs = [(p, nn.Parameter(p.detach().float())) for p in net.parameters()]
        self.sgd = torch.optim.SGD([copy for _, copy in self.pairs], lr=lr, momentum=0.9)

    def step(self):
        for p, copy in self.pairs:
            copy.grad, p.grad = p.grad.float(), None
        self.sgd.step()
        for p, copy in self.pairs:
            p.data.copy_(copy.data)


def made():
    net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1)).bfloat16()
    return net, Copies(net, 0.05)


def train(net, optimizer, steps):
    for _ in range(steps):
        loss = nn.functional.binary_cross_entropy_with_logits(net(calls.bfloat16()).float(), loud)
        loss.backward()
        optimizer.step()
    return loss.item()


first, optimizer = made()
train(first, optimizer, 40)
second, _ = made()
second.load_state_dict(first.state_dict())
optimizer = Copies(second, 0.05)
print(train(second, optimizer, 10))
