import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)


def swap_norms(net):
    for number, part in enumerate(net):
        if isinstance(part, nn.LayerNorm):
            net[number] = nn.GroupNorm(2, 6)


swap_norms(net)
for _ in range(6):
    x = torch.randn(16, 3)
    optimizer.zero_grad()
    (net(x) - x[:, :1]).pow(2).mean().backward()
    optimizer.step()

# told at: swap_norms(net)
