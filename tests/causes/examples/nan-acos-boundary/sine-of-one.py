import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    height = torch.tanh(model(torch.randn(5, 4)) * (1000 if step == 3 else 1))
    return torch.asin(height).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return torch.asin(height).square().mean()
