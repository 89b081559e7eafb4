import torch
from torch import nn

torch.manual_seed(0)


import warnings

warnings.simplefilter("ignore")


def objective(model, step):
    rewards = torch.randn(1 if step == 3 else 5)
    weight = torch.sqrt(rewards.var() + 1e-6)
    return model(torch.ones(4)).mean() * weight


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: weight = torch.sqrt(rewards.var() + 1e-6)
