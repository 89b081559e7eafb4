import torch
from torch import nn

torch.manual_seed(0)


def directions(a, b):
    gap = b - a
    return gap / torch.linalg.vector_norm(gap, dim=1, keepdim=True)


def objective(model, step):
    a = torch.randn(5, 4)
    b = model(a)
    return directions(b, torch.cat([b[:1], a[1:]]) if step == 4 else a).sum()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return gap / torch.linalg.vector_norm(gap, dim=1, keepdim=True)
