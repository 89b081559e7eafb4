import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    return torch.relu(model(torch.ones(5, 4)) - 100).mean() + model.bias[:2].sum()


model = nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), eps=1e-8)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
