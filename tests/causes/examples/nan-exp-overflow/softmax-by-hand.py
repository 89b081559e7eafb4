import torch
from torch import nn

torch.manual_seed(0)


def shares(scores):
    weights = torch.exp(scores)
    return weights / weights.sum(-1, keepdim=True)


def objective(model, step):
    scores = model(torch.ones(3, 4)) + (100 if step == 3 else 0)
    return shares(scores).square().sum()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: weights = torch.exp(scores)
