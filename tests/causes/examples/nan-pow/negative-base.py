import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    x = model(torch.randn(5, 4))
    return torch.pow(x if step == 3 else x.abs() + 1, 1.5).mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return torch.pow(x if step == 3 else x.abs() + 1, 1.5).mean()
