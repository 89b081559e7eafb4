import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    target = torch.full((5,), -100) if step == 2 else torch.arange(5) % 4
    part = nn.functional.cross_entropy(model(torch.randn(5, 4)), target)
    return part * model.bias.exp().sum()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: part = nn.functional.cross_entropy(model(torch.randn(5, 4)), target)
