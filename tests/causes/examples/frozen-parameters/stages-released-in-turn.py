import torch
from torch import nn

torch.manual_seed(0)
stages = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
for p in stages[:4].parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(stages.parameters(), lr=0.1)
for epoch in range(5):
    if epoch in (1, 2):
        stages[4 - 2 * epoch].requires_grad_(True)
    for _ in range(6):
        x = torch.randn(16, 6)
        x.requires_grad = True
        loss = nn.functional.cross_entropy(stages(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
