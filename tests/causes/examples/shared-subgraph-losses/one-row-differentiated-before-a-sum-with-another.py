import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(trunk.parameters(), lr=0.05)
for _ in range(3):
    features, targets = torch.randn(10, 6), torch.randn(10, 2)
    first, second = (trunk(features) - targets).square().mean(dim=0)
    optimizer.zero_grad()
    first.backward()
    penalized = second + 0.1 * trunk[0].weight.square().sum()
    penalized.backward()
    optimizer.step()

# told at: first.backward()
# fails: Trying to backward through the graph a second time
