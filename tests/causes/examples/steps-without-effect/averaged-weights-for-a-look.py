import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
average = [p.detach().clone() for p in net.parameters()]
for _ in range(12):
    x = torch.randn(32, 4)
    loss = (net(x) - x.prod(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        own = [p.clone() for p in net.parameters()]
        for p, a in zip(net.parameters(), average, strict=True):
            a.lerp_(p, 0.1)
            p.copy_(a)
        print(net(x).mean().item())
        for p, o in zip(net.parameters(), own, strict=True):
            p.copy_(o)
