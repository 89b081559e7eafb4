import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(12):
    optimizer.zero_grad()
    net(torch.randn(8, 4)).square().mean().backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), float("inf"))
    optimizer.zero_grad()
    x = torch.randn(8, 4)
    loss = nn.functional.mse_loss(net(x), x[:, :2]) / (1 + norm)
    loss.backward()
    optimizer.step()
