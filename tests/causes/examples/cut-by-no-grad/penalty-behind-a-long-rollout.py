import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 3)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(6):
    with torch.no_grad():
        x = torch.randn(8, 3)
        for _ in range(150):
            x = 0.9 * x + 0.1 * torch.tanh(net(x))
    guess = net(x)
    with torch.no_grad():
        drift = (x - guess).square().sum(1)
    loss = ((guess - x.roll(1, 1)).abs().sum(1) + 0.1 * drift).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: with torch.no_grad():
