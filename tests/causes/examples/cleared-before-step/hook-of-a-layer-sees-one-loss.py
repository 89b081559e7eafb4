import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
weights = []
net[1].register_full_backward_hook(lambda _layer, _given, received: weights.append(received[0].mean(dim=0)))
for _ in range(12):
    x = torch.randn(8, 4)
    net(x)[:, 0].sum().backward()
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), x[:, :2]).backward()
    optimizer.step()
