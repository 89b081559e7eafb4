import torch
from torch import nn

torch.manual_seed(0)
net = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    net[0](torch.randn(8, 4)).square().mean().backward()
    for p in net.parameters():
        p.grad.data = torch.randn_like(p)
    opt.step()

# told at: p.grad.data = torch.randn_like(p)
# fails: 'NoneType' object has no attribute 'data'
