import torch
from torch import nn

torch.manual_seed(0)


def spread(x):
    variance = (x * x).mean(0) - x.mean(0) ** 2
    return torch.sqrt(variance - 1e-6)


def objective(model, step):
    x = model(torch.randn(8, 4) if step < 3 else torch.ones(8, 4))
    return spread(x).sum()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return torch.sqrt(variance - 1e-6)
