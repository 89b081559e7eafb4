import torch
from torch import nn

torch.manual_seed(0)
net = nn.ModuleDict({"body": nn.Linear(4, 8), "head": nn.Linear(8, 1)})
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    loss = net["head"](net["body"](torch.randn(8, 4)).tanh()).square().mean()
    loss.backward()
    print(sum(p.grad.norm() for p in net.parameters() if p.grad is not None))
    opt.step()
