import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = {"rates": None}
for _ in range(3):
    kept["rates"] = net(torch.ones(2, 3)).exp()
    kept["rates"] += 1
    optimizer.zero_grad()
    kept["rates"].sum().backward()
    optimizer.step()

# told at: kept["rates"] += 1
# fails: has been modified by an inplace operation
