import torch
from torch import nn

torch.manual_seed(0)


def likelihood(density):
    return torch.log(density.exp().sum(1)).mean()


def objective(model, step):
    return likelihood(model(torch.ones(3, 4)) + (0 if step < 3 else 100))


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return torch.log(density.exp().sum(1)).mean()
