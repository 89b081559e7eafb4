import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    x = model(torch.randn(1 if step == 5 else 8, 4))
    return ((x - x.mean(0)) / (x.std(0, correction=0) + 1e-8)).square().mean() + x.mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
