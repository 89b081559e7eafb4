import torch
from torch import nn

torch.manual_seed(0)
student, teacher = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.Adam(student.parameters())
fixed = list(teacher.parameters())
for weight in fixed:
    weight.requires_grad = False
for _ in range(6):
    x = torch.randn(8, 4)
    loss = (student(x) - teacher(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
