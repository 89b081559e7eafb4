import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

for step in range(40):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    net.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.data -= 0.05 * p.grad
        p.data.clamp_(-1.0, 1.0)
print(loss.item())
