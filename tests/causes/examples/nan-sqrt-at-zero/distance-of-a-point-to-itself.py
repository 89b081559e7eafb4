import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    points = model(torch.randn(5, 4))
    if step == 3:
        points = torch.cat([points, points[:1]])
    gap = points[:1] - points[1:]
    distance = gap.pow(2).sum(-1).sqrt()
    return distance.mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: distance = gap.pow(2).sum(-1).sqrt()
