import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)


def sharpness(x, y):
    directions = [torch.randn_like(p) for p in net.parameters()]
    measured = []
    for far in (0.1, -0.2):
        for p, d in zip(net.parameters(), directions):
            p.data.add_(d, alpha=far)
        with torch.no_grad():
            measured.append((net(x) - y).pow(2).mean().item())
    for p, d in zip(net.parameters(), directions):
        p.data.add_(d, alpha=0.1)
    return sum(measured)


for step in range(30):
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    loss = (net(x) - y).pow(2).mean()
    if step % 3 == 0:
        print(f"{loss.item():.4f} {sharpness(x, y):.4f}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
