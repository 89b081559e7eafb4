import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :4]
for step in range(16):
    out = net(x)
    recon = F.mse_loss(out, y)
    sparse = out.abs().mean()
    total = recon + 0.1 * sparse
    loss = recon if step < 40 else total
    opt.zero_grad()
    loss.backward()
    opt.step()