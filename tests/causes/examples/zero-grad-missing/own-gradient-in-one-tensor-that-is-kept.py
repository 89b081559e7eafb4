import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
sums = [torch.zeros_like(p) for p in net.parameters()]
for _ in range(12):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    grads = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    loss.backward()
    for p, s, g in zip(net.parameters(), sums, grads, strict=True):
        s.copy_(g.clamp(-1, 1))
        p.grad = s
    optimizer.step()
