import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
heads = nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()])
for _ in range(3):
    z = trunk(torch.randn(5, 4))
    first, second = (head(z).pow(2).mean() for head in heads)
    optimizer.zero_grad()
    first.backward(retain_graph=True)
    second.backward()
    optimizer.step()
