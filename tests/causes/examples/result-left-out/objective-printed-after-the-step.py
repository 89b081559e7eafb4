import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :4]
for step in range(12):
    out = net(x)
    loss = F.mse_loss(out, y)
    penalty = sum(p.abs().sum() for p in net.parameters())
    opt.zero_grad()
    loss.backward()
    opt.step()
    objective = loss + 1e-3 * penalty
    print(f"{step} {loss.item():.4f} {objective.item():.4f}")