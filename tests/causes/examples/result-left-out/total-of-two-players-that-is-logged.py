import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :4]
dis = nn.Linear(4, 1)
opt_d = torch.optim.Adam(dis.parameters(), lr=1e-3)
for step in range(12):
    fake = net(x)
    d_loss = F.softplus(dis(fake.detach())).mean() + F.softplus(-dis(y)).mean()
    g_loss = F.softplus(-dis(fake)).mean()
    total = d_loss + g_loss
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    opt.zero_grad()
    F.softplus(-dis(fake)).mean().backward()
    opt.step()
    print(total.item())