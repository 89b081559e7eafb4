"""The picture is let require gradients when the network has already looked at it."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(2):
    picture = torch.rand(5, 1, 4, 4)
    score = net(picture)
    picture.requires_grad_()
    slope = torch.autograd.grad(score.sum(), picture, create_graph=True)[0]
    loss = score.square().mean() + slope.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: picture.requires_grad_()
# fails: appears to not have been used in the graph
