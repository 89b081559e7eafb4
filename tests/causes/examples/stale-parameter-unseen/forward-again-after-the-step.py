import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
for x in torch.randn(4, 8, 3):
    for i in range(2):
        optimizer.zero_grad()
        net(x)[:, i].pow(2).mean().backward()
        optimizer.step()
