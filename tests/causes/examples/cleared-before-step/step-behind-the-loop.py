import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(256, 6)
y = x @ torch.randn(6, 1)
for epoch in range(6):
    for i in range(0, 256, 64):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x[i : i + 64]), y[i : i + 64])
        loss.backward()
    opt.step()

# told at: opt.zero_grad()
