import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(12):
    real, fake = torch.randn(8, 4) + 1, torch.randn(8, 4)
    nn.functional.cross_entropy(net(real), torch.ones(8, dtype=torch.long)).backward()
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(fake), torch.zeros(8, dtype=torch.long)).backward()
    optimizer.step()

# told at: optimizer.zero_grad()
