import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    ceiling = torch.tensor(1000.0).exp()
    return torch.minimum(model(torch.ones(3, 4)).square(), ceiling).mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
