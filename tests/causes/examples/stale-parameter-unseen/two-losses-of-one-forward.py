import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
for x in torch.randn(4, 8, 3):
    y = net(x)
    first, second = y[:, 0].pow(2).mean(), y[:, 1].abs().mean()
    optimizer.zero_grad()
    first.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    second.backward()
    optimizer.step()

# told at: optimizer.step()
