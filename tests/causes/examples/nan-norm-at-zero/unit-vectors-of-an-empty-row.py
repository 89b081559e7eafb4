import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    rows = torch.randn(5, 4)
    if step == 3:
        rows[2] = 0
    hidden = model(rows)
    unit = hidden / hidden.norm(dim=-1, keepdim=True)
    return (unit @ unit.t()).square().mean()


model = nn.Linear(4, 4, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: unit = hidden / hidden.norm(dim=-1, keepdim=True)
