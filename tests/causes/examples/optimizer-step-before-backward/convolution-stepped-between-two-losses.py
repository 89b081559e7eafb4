import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 2, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
images = torch.randn(2, 1, 8, 8)


def apply(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


smooth = net(images).diff(dim=-1).pow(2).mean()
energy = net(images.flip(-1)).pow(2).mean()
apply(energy)
apply(smooth)

# told at: smooth = net(images).diff(dim=-1).pow(2).mean()
# fails: modified by an inplace operation
