import torch
from torch import nn

torch.manual_seed(0)
gate, head = nn.Linear(5, 4), nn.Linear(5, 4)
optimizer = torch.optim.SGD([*gate.parameters(), *head.parameters()], lr=0.05)
for _ in range(8):
    x = torch.randn(32, 5)
    soft = gate(x).sigmoid()
    hard = (soft > 0.5).float()
    target = (hard - soft).detach() + soft.detach()
    loss = (soft - target).square().mean() + (head(x) - x.mean()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
