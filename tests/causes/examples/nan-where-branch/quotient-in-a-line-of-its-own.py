import torch
from torch import nn

torch.manual_seed(0)


def sinc(x):
    quotient = torch.sin(x) / x
    return torch.where(x == 0, torch.ones_like(x), quotient)


def objective(model, step):
    return sinc(model(torch.randn(5, 4)) * torch.ones(4).cumsum(0).remainder(2)).mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: quotient = torch.sin(x) / x
