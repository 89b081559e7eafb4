import torch
from torch import nn

torch.manual_seed(0)


torch.utils.deterministic.fill_uninitialized_memory = True
torch.use_deterministic_algorithms(True)


def padded(rows):
    out = torch.empty(8, 4)
    out[: len(rows)] = rows
    return out


def objective(model, step):
    return model(padded(torch.randn(5, 4))).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: out = torch.empty(8, 4)
