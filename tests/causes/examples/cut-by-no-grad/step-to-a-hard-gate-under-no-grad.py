import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 6)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(8):
    x, gain = torch.randn(8, 4), torch.randn(8, 6)
    soft = net(x).sigmoid()
    with torch.no_grad():
        step = (soft > 0.5).float() - soft
    loss = -((soft + step) * gain).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
