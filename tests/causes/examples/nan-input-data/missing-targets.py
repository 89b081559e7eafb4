import torch
from torch import nn

torch.manual_seed(0)


target = torch.tensor([[1.0, float("nan"), 0.0, 1.0]])


def objective(model, step):
    return torch.nanmean((model(torch.ones(1, 4)) - target) ** 2)


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return torch.nanmean((model(torch.ones(1, 4)) - target) ** 2)
