import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(5, 4, 3):
    optimizer.zero_grad(set_to_none=False)
    net(x).pow(2).mean().backward()
    grads = [p.grad for p in net.parameters()]
    print(sum(g.norm().item() for g in grads) > 0)
    optimizer.step()
