import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 if step < 3 else float("inf")
    return model(torch.randn(5, 4)).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: optimizer.step()
