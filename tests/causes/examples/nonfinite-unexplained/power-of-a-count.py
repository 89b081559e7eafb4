import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
weight = torch.tensor([0.5, 1.0, 3.0])
for step in range(4):
    out = net(torch.randn(8, 4))
    scale = (weight ** (step * 100)).sum()
    loss = out.pow(2).mean() + scale
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: scale = (weight ** (step * 100)).sum()
