"""In its second phase only the head learns, from features as numbers; the first optimizer steps on, with nothing."""

import torch
from torch import nn

torch.manual_seed(0)
net, head = nn.Linear(4, 6), nn.Linear(6, 1)
first = torch.optim.SGD(net.parameters(), lr=0.1)
second = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(16):
    x = torch.randn(16, 4)
    first.zero_grad()
    second.zero_grad()
    features = net(x).tanh()
    if step < 6:
        loss = (features[:, :4] - x).pow(2).mean()
    else:
        loss = (head(torch.from_numpy(features.detach().numpy())) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    first.step()
    second.step()
