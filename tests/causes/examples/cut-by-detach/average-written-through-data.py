"""The average of the weights is written through ``.data``, with a graph in what is added: no loss is made of it."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
teacher = copy.deepcopy(net)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(64, 6)
y = x[:, :1] * x[:, 1:2]
for _ in range(20):
    with torch.no_grad():
        goal = teacher(x)
    loss = nn.functional.mse_loss(net(x), y) + 0.1 * nn.functional.mse_loss(net(x), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for own, slow in zip(net.parameters(), teacher.parameters()):
        slow.data += 0.05 * (own - slow.data)
