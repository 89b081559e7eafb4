import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    losses = net(torch.randn(8, 4)).square().mean(0)
    optimizer.zero_grad()
    losses.backward(torch.tensor([0.5, 0.3, 0.2]))
    optimizer.step()
