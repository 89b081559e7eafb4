import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    learner = copy.deepcopy(net)
    for _ in range(6):
        learner.zero_grad()
        learner(torch.randn(8, 3)).pow(2).mean().backward()
        for p in learner.parameters():
            p.data -= 0.01 * p.grad
    for p, q in zip(net.parameters(), learner.parameters()):
        p.grad = p.detach() - q.detach()
    optimizer.step()
