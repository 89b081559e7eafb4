import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.Adam([*net[0].parameters(), *net[4].parameters()], lr=1e-3)
for _ in range(12):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

# told at: opt = torch.optim.Adam([*net[0].parameters(), *net[4].parameters()], lr=1e-3)
