import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    points = model(torch.randn(5, 4))
    points = torch.cat([points, points[:1]])
    return torch.linalg.vector_norm(points[:1] - points[1:], dim=-1).mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
