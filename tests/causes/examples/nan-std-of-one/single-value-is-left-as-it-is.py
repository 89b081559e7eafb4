import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    x = model(torch.randn(1 + step, 4))
    return (x / (x.std(0) + 1) if len(x) > 1 else x).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
