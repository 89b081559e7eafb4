import torch
from torch import nn

torch.manual_seed(0)


import warnings

warnings.simplefilter("ignore")


def normalised(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-8)


def objective(model, step):
    return normalised(model(torch.randn(1 if step == 3 else 5, 4))).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return (x - x.mean(0)) / (x.std(0) + 1e-8)
