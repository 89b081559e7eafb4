import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    height = (model(torch.randn(5, 4)) * 1e6).clamp(-1, 1)
    return torch.atan2(height, 1 - height.square()).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
