import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    error = (model(torch.randn(5, 4)) * torch.ones(4).cumsum(0).remainder(2)).abs()
    return (error**0.7).mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return (error**0.7).mean()
