import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
for p in net[0].parameters():
    p.requires_grad = False
opt = torch.optim.SGD(net[2].parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    net(torch.randn(8, 4)).square().mean().backward()
    for p in net.parameters():
        p.grad.data.clamp_(-1, 1)
    opt.step()

# told at: p.grad.data.clamp_(-1, 1)
# fails: 'NoneType' object has no attribute 'data'
