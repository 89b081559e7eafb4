import torch
from torch import nn

torch.manual_seed(0)
net = nn.ModuleDict({"body": nn.Linear(4, 8), "head": nn.Linear(8, 1), "extra": nn.Linear(8, 1)})
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    net["head"](net["body"](torch.randn(8, 4)).tanh()).square().mean().backward()
    total = 0.0
    for name, p in net.named_parameters():
        total += p.grad.norm().item() ** 2
    opt.step()
    print(total)

# told at: total += p.grad.norm().item() ** 2
# fails: 'NoneType' object has no attribute 'norm'
