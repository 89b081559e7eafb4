import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    net(torch.randn(8, 4)).square().mean().backward()
    opt.step()
    opt.zero_grad()
    print(sum(p.grad.norm() for p in net.parameters()))

# told at: opt.zero_grad()
# fails: 'NoneType' object has no attribute 'norm'
