import torch
from torch import nn

torch.manual_seed(0)
tasks = [nn.Linear(4, 2) for _ in range(3)]
optimizer = torch.optim.SGD([p for net in tasks for p in net.parameters()], lr=0.1)
for _ in range(8):
    x = torch.randn(16, 4)
    y = (x[:, 0] > 0).long()
    loss = sum(nn.functional.cross_entropy(net(x), y) for net in tasks)
    for one in tasks:
        for other in tasks:
            loss = loss + 0.01 * ((one.weight - other.weight) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
