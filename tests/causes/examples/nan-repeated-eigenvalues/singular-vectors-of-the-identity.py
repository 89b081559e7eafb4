import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    u, s, v = torch.linalg.svd(torch.eye(4) + (step != 3) * model(torch.randn(4, 4)) + 0 * model.weight)
    return (u[:, 0] * s[0]).sum() + v.sum()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: u, s, v = torch.linalg.svd(torch.eye(4) + (step != 3) * model(torch.randn(4, 4)) + 0 * model.weight)
# fails: failed to converge
