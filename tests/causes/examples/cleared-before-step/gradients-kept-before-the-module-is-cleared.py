import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
probe = nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    parts = []
    for _ in range(3):
        net(torch.randn(1, 4)).pow(2).mean().backward()
        parts.append([p.grad.clone() for p in net.parameters()])
        net.zero_grad()
    for i, p in enumerate(net.parameters()):
        p.grad = sum(part[i].clamp(-1, 1) for part in parts)
    sgd.step()
    probe(torch.randn(2, 4)).mean().backward()
    probe.zero_grad()
    net.zero_grad()
