import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(4, 3)
    out = net(x)
    out.detach()
    loss = (out - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    loss.detach()
    print(step, round(loss.item(), 3))
