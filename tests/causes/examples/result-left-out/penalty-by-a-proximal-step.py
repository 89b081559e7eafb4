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
    smooth = F.mse_loss(out, y)
    l1 = 1e-3 * sum(p.abs().sum() for p in net.parameters())
    total = smooth + l1
    opt.zero_grad()
    smooth.backward()
    opt.step()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(p.sign() * F.relu(p.abs() - 1e-5))
    print(total.item())