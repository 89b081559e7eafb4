import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :1] * 2


def l1(model):
    return sum(p.abs().sum() for p in model.parameters())


for epoch in range(12):
    opt.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    loss = loss + 1e-3 * l1(net)
    opt.step()
    if epoch % 4 == 0:
        print(epoch, loss.item())
# told at: loss.backward()
