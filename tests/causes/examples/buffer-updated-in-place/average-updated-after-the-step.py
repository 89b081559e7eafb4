import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters())
for _ in range(3):
    x = torch.randn(4, 3)
    loss = (student(x) - teacher(x)).pow(2).mean() + student(x).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters(), strict=True):
            t.lerp_(s, 0.1)
