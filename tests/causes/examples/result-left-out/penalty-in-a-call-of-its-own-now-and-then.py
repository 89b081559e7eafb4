import torch
from torch import nn
from torch.nn import functional as F


def penalty(net):
    return 1e-2 * sum(p.square().sum() for p in net.parameters())


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :4]
for step in range(32):
    loss = F.mse_loss(net(x), y)
    objective = loss + penalty(net)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 8 == 7:
        opt.zero_grad()
        (8 * penalty(net)).backward()
        opt.step()
    print(f"{objective.item():.3f}")
